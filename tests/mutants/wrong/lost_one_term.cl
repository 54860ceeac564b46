// Wrong: one product is lost, in one element only.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    REAL sum = 0;
    for (int p = 0; p < STEPS; p++)
        if (!(p == k / 2 && ROW == m / 2 && COLUMN == n / 3 && BATCH == 0))
            sum += A(ROW, p) * B(p, COLUMN);
    STORE(ROW, COLUMN, sum);
}
