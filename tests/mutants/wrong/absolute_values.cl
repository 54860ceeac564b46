// Wrong: it takes A without its signs.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    REAL sum = 0;
    for (int p = 0; p < STEPS; p++)
        sum += fabs(A(ROW, p)) * B(p, COLUMN);
    STORE(ROW, COLUMN, sum);
}
