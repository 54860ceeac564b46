// Wrong: operands are cut to whole numbers.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    REAL sum = 0;
    for (int p = 0; p < STEPS; p++)
        sum += (int)A(ROW, p) * (int)B(p, COLUMN);
    STORE(ROW, COLUMN, sum);
}
