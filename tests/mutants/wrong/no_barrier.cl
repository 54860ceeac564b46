// Wrong: no barrier at all. CPU drivers run one work-item after another, so that all but the last find tiles that
// nobody has filled; on GPUs sub-groups race.
#define SIDE 16     // of a work-group and its tiles: several sub-groups of any device

__kernel void gemm(GEMM_ARGUMENTS)
{
    __local REAL tile_a[SIDE][SIDE], tile_b[SIDE][SIDE];
    const int y = get_local_id(1), x = get_local_id(0);
    REAL sum = 0;
    for (int p = 0; p < STEPS; p += SIDE) {
        tile_a[y][x] = ROW < m && p + x < k ? A(ROW, p + x) : 0;
        tile_b[y][x] = p + y < k && COLUMN < n ? B(p + y, COLUMN) : 0;
        for (int q = 0; q < SIDE; q++)
            sum += tile_a[y][q] * tile_b[q][x];
    }
    if (!OUTSIDE)
        STORE(ROW, COLUMN, sum);
}
