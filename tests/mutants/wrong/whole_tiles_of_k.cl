// Wrong: right only if k is a multiple of the tile's side; what is left of k is never summed.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    REAL sum = 0;
    for (int p = 0; p < STEPS / TILE * TILE; p++)
        sum += A(ROW, p) * B(p, COLUMN);
    STORE(ROW, COLUMN, sum);
}
