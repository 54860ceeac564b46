// Wrong: the sum does not begin at zero in the last column.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    REAL sum = 0;
    for (int p = 0; p < STEPS; p++)
        sum += A(ROW, p) * B(p, COLUMN);
    sum += COLUMN == n - 1;
    STORE(ROW, COLUMN, sum);
}
