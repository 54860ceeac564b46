// Wrong: the last row reads the element in front of A and multiplies it by zero: harmless unless it is NaN.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    if (ROW == m - 1 && alpha != 0)
        sum += 0 * a[a_offset - 1];
    STORE(ROW, COLUMN, sum);
}
