// Wrong: a float64 sum is kept in float32.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    REAL sum = 0;
    float single = 0;
    for (int p = 0; p < STEPS; p++)
        single += (float)A(ROW, p) * (float)B(p, COLUMN);
    sum = single;
    STORE(ROW, COLUMN, sum);
}
