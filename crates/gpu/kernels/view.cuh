// For masks that follow the view of their picture, finds the mask pixel that each view pixel shows. The host computes
// the same results (crates/loader, stage/mask_view.rs), so products and sums are rounded separately.
#pragma once
#include "cube.cuh"

// Marks a row or column of the view that shows no part of the mask.
#define VIEW_BORDER 0xFFFFFFFFu
#define VIEW_THREADS 256u

// A map of the view's pixels, as in Cube, and the value of pixels whose source is outside.
struct ViewMove {
    Array<double, 6> map;
    u64 outside;
};

// The content of a view pixel: a pixel of the region, or a fixed value.
struct Shown {
    u32 row, column;
    bool is_pixel;
    u64 value;
};

// Returns the content of the pixel in the given row and column of the view. The table of the view holds the maps, then
// the region's row for each row of the view, then the region's column for each column of the view.
FN Shown view_shown(const Cube& c, Ptr<const u8> slot, u32 row, u32 column) {
    const Ptr<const ViewMove> moves = cast<const ViewMove>(slot + c.view);
    const double high = (double)c.view_rows, wide = (double)c.view_columns;
    for (u32 n = c.view_moves; n > 0; n--) {
        const ViewMove move = moves[n - 1];
        // A pixel's centre is half a pixel from its edge.
        const double y = (double)row + 0.5 - high * 0.5, x = (double)column + 0.5 - wide * 0.5;
        const double at_x = move.map[0] * x + (move.map[1] * y + move.map[2] + wide * 0.5);
        const double at_y = move.map[3] * x + (move.map[4] * y + move.map[5] + high * 0.5);
        const bool inside = at_x >= 0.0 && at_x < wide && at_y >= 0.0 && at_y < high;
        if (!inside) return {0, 0, false, move.outside};
        row = (u32)at_y, column = (u32)at_x;
    }
    const Ptr<const u32> rows = cast<const u32>(slot + c.view + c.view_moves * sizeof(ViewMove));
    const u32 y = rows[row], x = rows[c.view_rows + column];
    return {y, x, y != VIEW_BORDER && x != VIEW_BORDER, c.outside};
}
