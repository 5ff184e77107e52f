#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/tensor_fwd.h"
#include "tutti/data/columns.h"
#include "tutti/data/parse_spec.h"
#include "tutti/keras/initializers.h"
#include "tutti/keras/shape.h"

namespace tutti::feature_column {

// The categories in a batch, by rows: what a sparse tensor is to TensorFlow. In host memory.
struct SparseIds {
  Tensor indices;          // int64 [n, 2]: the example, and the place in it
  Tensor ids;              // int64 [n]; below 0: a category without a number
  Tensor weights = {};     // float32 [n]; undefined: all are 1
  int64_t num_rows = 0;    // examples
  int64_t num_places = 0;  // of the longest one
};

// The table of an embedding, which whoever uses the column makes and trains.
struct EmbeddingTable {
  std::string name;  // columns that share a table have one name
  int64_t num_rows;
  int64_t dimension;
  keras::initializers::Initializer initializer;
  bool trainable;
};

// What stands behind a FeatureColumn: how features become categories, numbers or both. What a column is not throws
// invalid_argument and names the column.
class FeatureColumnImpl {
 public:
  explicit FeatureColumnImpl(std::string name) : name_(std::move(name)) {}
  virtual ~FeatureColumnImpl() = default;
  FeatureColumnImpl(const FeatureColumnImpl&) = delete;
  FeatureColumnImpl& operator=(const FeatureColumnImpl&) = delete;

  const std::string& name() const { return name_; }
  // Adds what it reads of an Example.
  virtual void add_to(data::ParseSpec& spec) const = 0;

  // A column of categories.
  virtual bool is_categorical() const { return false; }
  virtual int64_t num_buckets() const { refuse("is no column of categories"); }
  // int64 [batch, n], with keras::layers::kNoCategory where there is none, and without weights.
  virtual Tensor category_ids(const data::Columns&) const { refuse("is no column of categories"); }
  // The same, and the weights.
  virtual SparseIds sparse_ids(const data::Columns& features) const;
  // Whether categories can be crossed: hashed ones are not.
  virtual bool can_be_crossed() const { return is_categorical(); }

  // A column of numbers: [batch, *variable_shape], or [batch, steps, *variable_shape] of a sequence.
  virtual bool is_dense() const { return false; }
  virtual keras::Shape variable_shape() const { refuse_as_dense(); }
  virtual std::optional<EmbeddingTable> table() const { return {}; }
  virtual Tensor dense(const data::Columns&, const Tensor& /*table*/) const { refuse_as_dense(); }

  // Whether its features are sequences; how many steps each example has, int64 [batch].
  virtual bool is_sequence() const { return false; }
  virtual Tensor sequence_lengths(const data::Columns&) const { refuse("is no column of sequences"); }

  // Throws: "feature column 'age': …".
  [[noreturn]] void refuse(const std::string& message, ErrorCode code = ErrorCode::invalid_argument) const;

 private:
  [[noreturn]] void refuse_as_dense() const {
    refuse("gives categories, and numbers are asked for; wrap it in indicator_column or embedding_column");
  }

  std::string name_;
};

// How features of examples become the inputs of a model. A value: copies are the same column. TF: tf.feature_column.
class FeatureColumn {
 public:
  explicit FeatureColumn(std::shared_ptr<const FeatureColumnImpl> impl) : impl_(std::move(impl)) {}

  const std::string& name() const { return impl_->name(); }
  const FeatureColumnImpl& operator*() const { return *impl_; }
  const FeatureColumnImpl* operator->() const { return impl_.get(); }
  const std::shared_ptr<const FeatureColumnImpl>& impl() const { return impl_; }

 private:
  std::shared_ptr<const FeatureColumnImpl> impl_;
};

// Adds a feature to a spec, which may have the same already.
// Throws: invalid_argument for another one of that name.
void add_feature(data::ParseSpec& spec, const std::string& name, const data::FeatureSpec& feature);

}  // namespace tutti::feature_column
