// Wrong: it ignores the offset of C.
#undef C_PLACE
#define C_PLACE(i, j) (BATCH * c_stride + (long)(i) * ldc + (j))

__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
}
