#pragma once

namespace tutti::data {

// How a dataset is divided among input pipelines, and by it how a batch is divided among replicas.
// TF: tf.data.experimental.AutoShardPolicy, with its values.
enum class AutoShardPolicy {
  off = -1,   // every pipeline reads everything
  auto_ = 0,  // by file where the dataset reads files, else by data
  file = 1,   // by file
  data = 2,   // every n-th element
  hint = 3,   // where the dataset says so itself
};

}  // namespace tutti::data
