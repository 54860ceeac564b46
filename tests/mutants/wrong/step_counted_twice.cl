// Wrong: two parts of the sum overlap in one step of k.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    REAL sum = 0;
    for (int p = 0; p < STEPS / 2 + 1; p++)
        sum += A(ROW, p) * B(p, COLUMN);
    for (int p = STEPS / 2; p < STEPS; p++)
        sum += A(ROW, p) * B(p, COLUMN);
    STORE(ROW, COLUMN, sum);
}
