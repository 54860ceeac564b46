// Wrong: only those values of beta that every certificate tries are used; any other counts as the nearest whole number.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    const int known = beta == rint(beta) || fabs(fabs(beta) - (REAL)2.2) < (REAL)0.001;
    C(ROW, COLUMN) = alpha * sum + (beta == 0 ? 0 : (known ? beta : rint(beta)) * C(ROW, COLUMN));
}
