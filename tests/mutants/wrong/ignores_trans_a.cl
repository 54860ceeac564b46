// Wrong: it reads A as if it were not stored transposed.
#undef A_PLACE
#define A_PLACE(i, p) ((long)(i) * lda + (p))

__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    STORE(ROW, COLUMN, sum);
}
