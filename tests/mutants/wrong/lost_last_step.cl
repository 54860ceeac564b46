// Wrong: the last step of k is lost.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    REAL sum = 0;
    for (int p = 0; p < STEPS - 1; p++)
        sum += A(ROW, p) * B(p, COLUMN);
    STORE(ROW, COLUMN, sum);
}
