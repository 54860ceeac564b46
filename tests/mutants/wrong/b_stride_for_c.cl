// Wrong: it takes the batch stride of B for that of C.
#undef C_PLACE
#define C_PLACE(i, j) (c_offset + BATCH * b_stride + (long)(i) * ldc + (j))

__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
}
