// Wrong: it does nothing, and so leaves in C what the kernel before it wrote.
__kernel void gemm(GEMM_ARGUMENTS)
{

}
