/* Exhaustive search of a car park, the inner loop of make_rush_hour.py (which compiles this file). */

#include <stdint.h>
#include <string.h>

#define VEHICLES 11
#define TABLE (1 << 15)     /* hash slots, a few times the largest number of positions */
#define LARGEST (TABLE / 4)
#define EXIT 4              /* the red car, vehicle 0, is solved at this offset */

static uint64_t place[VEHICLES][6]; /* cells of each vehicle at each offset */
static int last[VEHICLES];          /* largest offset */
static uint64_t queue[LARGEST];     /* positions: three bits per vehicle */
static int slot_of[TABLE], order[LARGEST], away[LARGEST];

static int find(uint64_t position, int *slot) {
    uint64_t h = position * 0x9E3779B97F4A7C15ull >> 49;
    while (slot_of[h] >= 0 && queue[slot_of[h]] != position) h = (h + 1) % TABLE;
    *slot = (int)h;
    return slot_of[h];
}

/* The position after move 2 vehicle + forward, or the same if it is blocked. */
static uint64_t after(uint64_t position, uint64_t taken, int code) {
    int v = code / 2, at = position >> 3 * v & 7, to = at + 2 * (code % 2) - 1;
    if (to < 0 || to > last[v] || (taken & ~place[v][at] & place[v][to])) return position;
    return position + ((uint64_t)(to - at) << 3 * v);
}

static uint64_t cells(uint64_t position, int count) {
    uint64_t taken = 0;
    for (int v = 0; v < count; v++) taken |= place[v][position >> 3 * v & 7];
    return taken;
}

/* vehicles: horizontal, length, lane, offset of each. Of all positions that can be reached, writes the one that
   is farthest from being solved to `offsets`, and the moves of a shortest solution to `plan`. Returns how many
   these are: 0 if none can be solved, -1 if there are more than `largest` positions. */
int search(int count, const uint8_t (*vehicles)[4], int largest, uint8_t *offsets, uint8_t *plan) {
    uint64_t first = 0;
    int n = 1, slot, solved = 0;
    for (int v = 0; v < count; v++) {
        last[v] = 6 - vehicles[v][1];
        for (int o = 0; o <= last[v]; o++) {
            place[v][o] = 0;
            for (int k = o; k < o + vehicles[v][1]; k++)
                place[v][o] |= 1ull << (vehicles[v][0] ? 6 * vehicles[v][2] + k : 6 * k + vehicles[v][2]);
        }
        first |= (uint64_t)vehicles[v][3] << 3 * v;
    }
    memset(slot_of, -1, sizeof slot_of);
    queue[0] = first;
    find(first, &slot);
    slot_of[slot] = 0;
    for (int k = 0; k < n; k++) {
        uint64_t taken = cells(queue[k], count);
        for (int code = 0; code < 2 * count; code++) {
            uint64_t then = after(queue[k], taken, code);
            if (find(then, &slot) >= 0) continue;
            if (n >= largest || n >= LARGEST) return -1;
            queue[n] = then;
            slot_of[slot] = n++;
        }
    }
    /* Moves can be undone: search backwards from all solved positions. */
    for (int k = 0; k < n; k++) {
        away[k] = (queue[k] & 7) == EXIT ? 0 : -1;
        if (away[k] == 0) order[solved++] = k;
    }
    for (int k = 0; k < solved; k++) {
        uint64_t position = queue[order[k]], taken = cells(position, count);
        for (int code = 0; code < 2 * count; code++) {
            int j = find(after(position, taken, code), &slot);
            if (away[j] >= 0) continue;
            away[j] = away[order[k]] + 1;
            order[solved++] = j;
        }
    }
    if (!solved) return 0;
    int at = order[solved - 1], moves = away[at];
    for (int v = 0; v < count; v++) offsets[v] = queue[at] >> 3 * v & 7;
    /* Of all shortest solutions the one whose red moves come first, so that the last moves are not all red. */
    for (int k = 0; k < moves; k++) {
        uint64_t taken = cells(queue[at], count);
        int code = 0, j = find(after(queue[at], taken, 0), &slot);
        while (away[j] != away[at] - 1) j = find(after(queue[at], taken, ++code), &slot);
        plan[k] = (uint8_t)code;
        at = j;
    }
    return moves;
}
