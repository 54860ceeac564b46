// Wrong: A and B are read though alpha is 0, and 0 times NaN is NaN.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    REAL sum = 0;
    for (int p = 0; p < k; p++)
        sum += A(ROW, p) * B(p, COLUMN);
    STORE(ROW, COLUMN, sum);
}
