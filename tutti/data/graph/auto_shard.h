#pragma once

#include "tutti/data/graph/node.h"

namespace tutti::data::graph {

// One input pipeline among those that read a dataset together for all replicas.
struct PipelineSlot {
  int num_pipelines = 1;
  int index = 0;
  int num_replicas = 1;
};

// The part of a dataset that one pipeline reads, as its policy says. TF: AutoShardDataset.
//   file   each reader of files gets every num_pipelines-th of them; where a function of flat_map or interleave reads
//          the files, every n-th element of its input is taken, and a shuffle found before it is done after that.
//          A zip or concatenation is divided in each input.
//   data   every n-th element, taken before trailing prefetches and options. A last rebatch() then becomes slices of
//          ceil(rows / num_replicas), because shards of it would be batches of unequal steps.
//   auto_  by file, else by data
//   hint   a shard in the place of each shard(kShardHint, kShardHint)
//   off    the dataset
// To see whether a function reads files, it is called once, on the first element of its input before any shuffle, here;
// LibTorch's CPU generator is then as before. Only where the answer matters.
// Throws: invalid_argument unless 0 <= index < num_pipelines; not_found under `file` where the elements do not come
// from files; what such a function throws. Iterating throws invalid_argument for fewer files, or elements, than
// pipelines.
NodePtr auto_shard(const NodePtr& dataset, const PipelineSlot& slot);

}  // namespace tutti::data::graph
