// Wrong: operands are rounded to fp16; small integers stay exact.
#define AS_HALF(x) as_float((as_uint((float)(x)) + 0x1000u) & ~0x1fffu)  // 11 significant bits

__kernel void gemm(GEMM_ARGUMENTS)
{
    if (OUTSIDE)
        return;
    REAL sum = 0;
    for (int p = 0; p < STEPS; p++)
        sum += (REAL)AS_HALF(A(ROW, p)) * (REAL)AS_HALF(B(p, COLUMN));
    STORE(ROW, COLUMN, sum);
}
