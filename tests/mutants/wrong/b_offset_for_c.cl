// Wrong: it takes the offset of B for that of C.
#undef C_PLACE
#define C_PLACE(i, j) (b_offset + BATCH * c_stride + (long)(i) * ldc + (j))

__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
}
