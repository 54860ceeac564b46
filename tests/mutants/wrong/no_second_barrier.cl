// Wrong: no barrier between the use of a tile and its next filling, which stands behind the use: CPU drivers add a
// barrier where a loop with barriers begins again. The first work-item overwrites what others still need; on GPUs
// sub-groups race.
#define SIDE 16     // of a work-group and its tiles: several sub-groups of any device

__kernel void gemm(GEMM_ARGUMENTS)
{
    __local REAL tile_a[SIDE][SIDE], tile_b[SIDE][SIDE];
    const int y = get_local_id(1), x = get_local_id(0);
    REAL sum = 0;
    tile_a[y][x] = ROW < m && x < STEPS ? A(ROW, x) : 0;
    tile_b[y][x] = y < STEPS && COLUMN < n ? B(y, COLUMN) : 0;
    for (int p = SIDE; p < STEPS + SIDE; p += SIDE) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int q = 0; q < SIDE; q++)
            sum += tile_a[y][q] * tile_b[q][x];
        tile_a[y][x] = ROW < m && p + x < STEPS ? A(ROW, p + x) : 0;
        tile_b[y][x] = p + y < STEPS && COLUMN < n ? B(p + y, COLUMN) : 0;
    }
    if (!OUTSIDE)
        STORE(ROW, COLUMN, sum);
}
