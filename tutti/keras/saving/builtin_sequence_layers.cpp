#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/str.h"
#include "tutti/keras/layers/attention/attention.h"
#include "tutti/keras/layers/attention/group_query_attention.h"
#include "tutti/keras/layers/attention/multi_head_attention.h"
#include "tutti/keras/layers/recurrent/bidirectional.h"
#include "tutti/keras/layers/recurrent/conv_lstm.h"
#include "tutti/keras/layers/recurrent/gru.h"
#include "tutti/keras/layers/recurrent/lstm.h"
#include "tutti/keras/layers/recurrent/rnn.h"
#include "tutti/keras/layers/recurrent/rnn_cell.h"
#include "tutti/keras/layers/recurrent/simple_rnn.h"
#include "tutti/keras/layers/recurrent/time_distributed.h"
#include "tutti/keras/saving/builtin_layer_internal.h"

namespace tutti::keras {
namespace {

// What all recurrent layers have, those of cells too.
template <class Options>
void list_sequences(LayerConfig& config, Options& options) {
  config.require({{"unroll", "false"}});
  config.option("return_sequences", options.return_sequences);
  config.option("return_state", options.return_state);
  config.option("go_backwards", options.go_backwards);
  config.option("zero_output_for_mask", options.zero_output_for_mask);
  config.option("stateful", options.stateful);
}

// What cells have, and the layers of them.
template <class Options>
void list_cell(LayerConfig& config, Options& options) {
  config.option("activation", options.activation);
  config.option("use_bias", options.use_bias);
  list_kernel_and_bias(config, options);
  config.option("recurrent_initializer", options.recurrent_initializer);
  config.option("recurrent_regularizer", options.recurrent_regularizer);
  config.option("dropout", options.dropout);
  config.option("recurrent_dropout", options.recurrent_dropout);
}

template <class Options>
void list_recurrent(LayerConfig& config, Options& options) {
  config.option("units", options.units);
  list_cell(config, options);
  list_sequences(config, options);
  config.option("activity_regularizer", options.activity_regularizer);
}

void list_options(LayerConfig& config, layers::SimpleRNNOptions& options) { list_recurrent(config, options); }

void list_options(LayerConfig& config, layers::LSTMOptions& options) {
  list_recurrent(config, options);
  config.option("recurrent_activation", options.recurrent_activation);
  config.option("unit_forget_bias", options.unit_forget_bias);
}

void list_options(LayerConfig& config, layers::GRUOptions& options) {
  list_recurrent(config, options);
  config.option("recurrent_activation", options.recurrent_activation);
  config.option("reset_after", options.reset_after);
}

void list_options(LayerConfig& config, layers::SimpleRNNCellOptions& options) {
  config.option("units", options.units);
  list_cell(config, options);
}

void list_options(LayerConfig& config, layers::LSTMCellOptions& options) {
  config.option("units", options.units);
  list_cell(config, options);
  config.option("recurrent_activation", options.recurrent_activation);
  config.option("unit_forget_bias", options.unit_forget_bias);
}

void list_options(LayerConfig& config, layers::GRUCellOptions& options) {
  config.option("units", options.units);
  list_cell(config, options);
  config.option("recurrent_activation", options.recurrent_activation);
  config.option("reset_after", options.reset_after);
}

void list_options(LayerConfig& config, layers::RNNOptions& options) { list_sequences(config, options); }

template <size_t Rank>
void list_options(LayerConfig& config, layers::ConvLSTMOptions<Rank>& options) {
  config.option("filters", options.filters);
  config.option("kernel_size", options.kernel_size);
  config.option("strides", options.strides);
  list_padding(config, options.padding);
  list_data_format(config, options.data_format);
  config.option("dilation_rate", options.dilation_rate);
  list_cell(config, options);
  list_sequences(config, options);
  config.option("activity_regularizer", options.activity_regularizer);
  config.option("recurrent_activation", options.recurrent_activation);
  config.option("unit_forget_bias", options.unit_forget_bias);
  config.option("recurrent_constraint", options.recurrent_constraint);
  list_kernel_and_bias_constraints(config, options);
}

// What Keras says in calls of attention.
template <class Options>
void list_calls_of_attention(LayerConfig& config, Options& options) {
  config.option("dropout", options.dropout);
  config.call_option("use_causal_mask", options.use_causal_mask);
  config.call_option("return_attention_scores", options.return_attention_scores);
}

void list_options(LayerConfig& config, layers::AttentionOptions& options) {
  using enum layers::ScoreMode;
  config.option("use_scale", options.use_scale);
  config.option("score_mode", options.score_mode, {{"dot", dot}, {"concat", concat}});
  list_calls_of_attention(config, options);
}

void list_options(LayerConfig& config, layers::AdditiveAttentionOptions& options) {
  config.option("use_scale", options.use_scale);
  list_calls_of_attention(config, options);
}

template <class Options>
void list_heads(LayerConfig& config, Options& options) {
  config.require({{"use_gate", "false"}});
  config.option("use_bias", options.use_bias);
  list_kernel_and_bias(config, options);
  config.option("activity_regularizer", options.activity_regularizer);
  list_calls_of_attention(config, options);
}

void list_options(LayerConfig& config, layers::MultiHeadAttentionOptions& options) {
  if (config.has("attention_axes")) config.require({{"attention_axes", "[1]"}});  // the steps, once Keras has built it
  config.option("num_heads", options.num_heads);
  config.option("key_dim", options.key_dim);
  if (!options.value_dim) options.value_dim = options.key_dim;
  config.option("value_dim", options.value_dim);
  std::optional<std::array<int64_t, 1>> output_shape;
  if (options.output_dim) output_shape = {*options.output_dim};
  config.option("output_shape", output_shape);
  if (output_shape) options.output_dim = (*output_shape)[0];
  list_heads(config, options);
}

void list_options(LayerConfig& config, layers::GroupQueryAttentionOptions& options) {
  config.option("head_dim", options.head_dim);
  config.option("num_query_heads", options.num_query_heads);
  config.option("num_key_value_heads", options.num_key_value_heads);
  list_heads(config, options);
}

void list_options(LayerConfig& config, layers::BidirectionalOptions& options) {
  using enum layers::MergeMode;
  if (!config.is_written() && !config.has("merge_mode"))
    options.merge_mode = none;
  else if (options.merge_mode == none)
    config.put("merge_mode", "null");
  else
    config.option("merge_mode", options.merge_mode, {{"concat", concat}, {"sum", sum}, {"mul", mul}, {"ave", ave}});
}

// The layer backwards is as the one forwards but for its name and direction, or it is one of its own.
std::map<std::string, std::string> options_in_both_directions(LayerConfig& config, const std::string& option) {
  auto object = json_members(config.json(option), config.layer());
  auto options = json_members(object["config"], config.layer());
  options["class_name"] = object["class_name"];
  options.erase("name");
  options.erase("dtype");
  options.erase("go_backwards");
  for (auto& [name, value] : options)
    if (name.ends_with("_initializer")) value.clear();
  return options;
}

BuiltinLayer bidirectional() {
  BuiltinLayer result = wrapper<layers::Bidirectional, layers::BidirectionalOptions, list_options>();
  result.make = [](LayerConfig& config, const InnerLayer& inner) -> layers::Layer {
    if (config.has("backward_layer") &&
        options_in_both_directions(config, "layer") != options_in_both_directions(config, "backward_layer"))
      config.refuse("has a backward_layer of its own, which is not supported");
    return wrapper<layers::Bidirectional, layers::BidirectionalOptions, list_options>().make(config, inner);
  };
  return result;
}

layers::RNNCell cell_of(const layers::Layer& layer, const LayerConfig& config) {
  auto cell = std::dynamic_pointer_cast<layers::RNNCellImpl>(layer.impl());
  if (!cell) config.refuse(str("has the layer ", layer.name(), " (", layer.impl()->type(), ") as a cell"));
  return layers::RNNCell(std::move(cell));
}

BuiltinLayer rnn() {
  return {.make = [](LayerConfig& config, const InnerLayer& inner) -> layers::Layer {
            layers::RNNOptions options;
            list_options(config, options);
            return layers::RNN(cell_of(inner(config.json("cell")), config), options);
          },
          .write =
              [](const layers::LayerImpl& layer, LayerConfig& config, const InnerJson& inner) {
                auto options = options_of<layers::RNNOptions>(layer, config);
                list_options(config, options);
                config.put("cell", inner(layer.sublayers().at(0)));
              }};
}

BuiltinLayer stacked_cells() {
  return {.make = [](LayerConfig& config, const InnerLayer& inner) -> layers::Layer {
            std::vector<layers::RNNCell> cells;
            for (const std::string& cell : config.list("cells")) cells.push_back(cell_of(inner(cell), config));
            return layers::StackedRNNCells(cells);
          },
          .write =
              [](const layers::LayerImpl& layer, LayerConfig& config, const InnerJson& inner) {
                (void)options_of<layers::StackedRNNCellsOptions>(layer, config);
                std::vector<std::string> cells;
                for (const auto& cell : layer.sublayers()) cells.push_back(inner(cell));
                config.put("cells", json_array(cells));
              }};
}

}  // namespace

const BuiltinLayers& sequence_layers() {
  using namespace layers;
  static const BuiltinLayers classes{
      {"AdditiveAttention", plain<AdditiveAttention, AdditiveAttentionOptions, list_options>()},
      {"Attention", plain<Attention, AttentionOptions, list_options>()},
      {"Bidirectional", bidirectional()},
      {"ConvLSTM1D", plain<ConvLSTM1D, ConvLSTMOptions<1>, list_options>()},
      {"ConvLSTM2D", plain<ConvLSTM2D, ConvLSTMOptions<2>, list_options>()},
      {"ConvLSTM3D", plain<ConvLSTM3D, ConvLSTMOptions<3>, list_options>()},
      {"GRU", plain<GRU, GRUOptions, list_options>()},
      {"GRUCell", plain<GRUCell, GRUCellOptions, list_options>()},
      {"GroupQueryAttention", plain<GroupQueryAttention, GroupQueryAttentionOptions, list_options>()},
      {"LSTM", plain<LSTM, LSTMOptions, list_options>()},
      {"LSTMCell", plain<LSTMCell, LSTMCellOptions, list_options>()},
      {"MultiHeadAttention", plain<MultiHeadAttention, MultiHeadAttentionOptions, list_options>()},
      {"RNN", rnn()},
      {"SimpleRNN", plain<SimpleRNN, SimpleRNNOptions, list_options>()},
      {"SimpleRNNCell", plain<SimpleRNNCell, SimpleRNNCellOptions, list_options>()},
      {"StackedRNNCells", stacked_cells()},
      {"TimeDistributed", wrapper<TimeDistributed, TimeDistributedOptions, list_no_options>()},
  };
  return classes;
}

}  // namespace tutti::keras
