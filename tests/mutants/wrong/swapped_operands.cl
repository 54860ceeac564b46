// Wrong: B·A instead of A·B.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    REAL sum = 0;
    for (int p = 0; p < STEPS; p++)
        sum += B(ROW, p) * A(p, COLUMN);
    STORE(ROW, COLUMN, sum);
}
