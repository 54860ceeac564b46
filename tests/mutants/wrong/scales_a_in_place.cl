// Wrong: its first step multiplies A by alpha where it lies. A changes unless alpha is 1, C is right.
__kernel void scale(GEMM_ARGUMENTS)
{
    if (ROW < m && COLUMN < k && alpha != 0)
        ((__global REAL*)a)[a_offset + BATCH * a_stride + A_PLACE(ROW, COLUMN)] *= alpha;
}

__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    C(ROW, COLUMN) = beta == 0 ? sum : sum + beta * C(ROW, COLUMN);
}
