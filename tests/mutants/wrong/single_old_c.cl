// Wrong: of a float64 C what was there before is read as float32.
__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    C(ROW, COLUMN) = alpha * sum + (beta == 0 ? 0 : beta * (float)C(ROW, COLUMN));
}
