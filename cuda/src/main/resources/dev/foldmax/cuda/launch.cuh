// What a launcher must know of a compiled attention kernel. Each exports one, as `launchShape`.
#pragma once

struct LaunchShape {
  int threads;     // of a block
  int sharedBytes; // dynamic shared memory of a block
  int queries;     // of a tile
  int slices;      // of the value dimension, each a task of its own
};
