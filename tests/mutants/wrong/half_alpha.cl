// Wrong: alpha is rounded to fp16.
#define AS_HALF(x) as_float((as_uint((float)(x)) + 0x1000u) & ~0x1fffu)  // 11 significant bits

__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    RIGHT_SUM(sum, ROW, COLUMN);
    const REAL value = AS_HALF(alpha) * sum + (beta == 0 ? 0 : beta * C(ROW, COLUMN));
    WRITE(value, c, C_PLACE(ROW, COLUMN));
}
