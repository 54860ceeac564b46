// Wrong: no edge test in k; the last tile adds what lies beyond the rows of A and below B.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    REAL sum = 0;
    for (int p = 0; p < (STEPS + TILE - 1) / TILE * TILE; p++)
        sum += A(ROW, p) * B(p, COLUMN);
    STORE(ROW, COLUMN, sum);
}
