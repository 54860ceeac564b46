// Wrong: it takes the matrices of the batch to follow each other without gaps.
#undef C_PLACE
#define C_PLACE(i, j) (c_offset + BATCH * m * ldc + (long)(i) * ldc + (j))

__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
}
