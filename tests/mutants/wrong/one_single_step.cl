// Wrong: in a float64 sum one product is rounded to float32.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    REAL sum = 0;
    for (int p = 0; p < STEPS; p++)
        sum += p == k / 2 ? (REAL)(float)(A(ROW, p) * B(p, COLUMN)) : A(ROW, p) * B(p, COLUMN);
    STORE(ROW, COLUMN, sum);
}
