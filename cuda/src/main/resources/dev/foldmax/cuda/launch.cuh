// What a launcher must know of a compiled kernel of attention. Each such source has a kernel of one
// thread, `launchShape`, that tells.
#pragma once

struct LaunchShape {
  int threads;     // of a block
  int sharedBytes; // dynamic shared memory of a block
  int queries;     // of a tile
  int slices;      // of the value dimension, each a task of its own
};
