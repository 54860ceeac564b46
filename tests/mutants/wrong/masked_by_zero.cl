// Wrong: no edge test in k; what lies beyond is multiplied by zero, harmless unless it is NaN or infinite.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    REAL sum = 0;
    for (int p = 0; p < (STEPS + TILE - 1) / TILE * TILE; p++)
        sum += A(ROW, p) * B(p, COLUMN) * (p < k ? 1 : 0);
    STORE(ROW, COLUMN, sum);
}
