// Wrong: it reads B as if it were not stored transposed.
#undef B_PLACE
#define B_PLACE(p, j) ((long)(p) * ldb + (j))

__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
}
