// Saves functions as ONNX and .pt2, each with inputs of some batch sizes and what it gives for them: write_onnx FOLDER
// makes FOLDER/NAME/ (a saved model) and FOLDER/NAME_BATCH.safetensors (inputs "x0", "x1", … and results "y0", "y1", …,
// in the order of the signature).
#include <tutti/tutti.h>

#include <iostream>

using namespace tutti;
using saved_model::Outputs;

using saved_model::TensorSpec;
namespace F = torch::nn::functional;

namespace {

std::filesystem::path root;
int num_failed = 0;

saved_model::Spec floats(const std::string& name, const std::vector<int64_t>& shape,
                         at::ScalarType dtype = torch::kFloat) {
  return TensorSpec({.name = name, .shape = shape, .dtype = dtype});
}
saved_model::Spec integers(const std::string& name, const std::vector<int64_t>& shape) {
  return floats(name, shape, torch::kLong);
}

Tensor sample(const saved_model::Spec& spec, int64_t batch) {
  std::vector<int64_t> shape = spec.shape;
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] == kUnknown) shape[i] = batch + 3 * static_cast<int64_t>(i);
  if (spec.dtype == torch::kBool) return torch::rand(shape) > 0.5;
  if (!at::isFloatingType(spec.dtype)) return torch::randint(0, 6, shape).to(spec.dtype);
  return torch::randn(shape).to(spec.dtype);
}

template <class Function>
void write_one(const std::string& name, const std::vector<saved_model::Spec>& inputs, const Function& f,
               const std::vector<int64_t>& batches, const saved_model::OnnxOptions& onnx) {
  saved_model::save(root / name, {.signatures = {{"f", saved_model::Signature(f, {.inputs = inputs})}},
                                  .torchscript = false,
                                  .onnx = onnx,
                                  .pt2 = true});
  const auto loaded = saved_model::load(root / name).signature("f");
  const torch::NoGradGuard no_grad;
  for (const int64_t batch : batches) {
    saved_model::Inputs values;
    std::map<std::string, Tensor> tensors;
    for (const saved_model::Spec& spec : loaded.inputs()) {
      const Tensor x = sample(spec, batch);
      values.emplace(spec.name, x);
      tensors.emplace("x" + std::to_string(tensors.size()), x.clone());
    }
    const Outputs outputs = loaded(values);
    int number = 0;
    for (const saved_model::Spec& spec : loaded.outputs())
      tensors.emplace("y" + std::to_string(number++), outputs.at(spec.name).tensor().clone().contiguous());
    checkpoint::save_safetensors(checkpoint::posix_file_system(),
                                 root / (name + '_' + std::to_string(batch) + ".safetensors"), tensors);
  }
  std::cout << name << '\n';
}

// What cannot be written does not keep others from it.
template <class Function>
void write(const std::string& name, const std::vector<saved_model::Spec>& inputs, const Function& f,
           const std::vector<int64_t>& batches = {1, 4, 9}, const saved_model::OnnxOptions& onnx = {}) {
  try {
    write_one(name, inputs, f, batches, onnx);
  } catch (const std::exception& error) {
    const std::string what = error.what();  // LibTorch's goes on with the calls
    std::cerr << name << ": " << what.substr(0, what.find('\n')) << '\n';
    ++num_failed;
  }
}

void write_pointwise() {
  const std::vector<saved_model::Spec> two = {floats("a", {kUnknown, 3}), floats("b", {3})};
  write("arithmetic", two, [](const Tensor& a, const Tensor& b) {
    const Tensor p = a.abs() + 0.1;
    return Outputs{{"add", torch::add(a, b, 2)},
                   {"sub", a - b},
                   {"rsub", 3 - a},
                   {"mul", a * b * 0.5},
                   {"div", a / b},
                   {"floor", torch::div(a, b, "floor")},
                   {"trunc", torch::div(a, b, "trunc")},
                   {"remainder", torch::remainder(a, b)},
                   {"fmod", torch::fmod(a, 0.7)},
                   {"pow", torch::pow(p, b)},
                   {"square", a.square()},
                   {"cube", torch::pow(a, 3)},
                   {"base", torch::pow(2, a)},
                   {"max", torch::maximum(a, b)},
                   {"lerp", torch::lerp(a, b, 0.3)},
                   {"addcmul", torch::addcmul(a, a, b, 0.5)},
                   {"addcdiv", torch::addcdiv(a, a, b, 0.5)},
                   {"min", torch::min(a, b)}};
  });
  write("unary", {floats("x", {kUnknown, 4})}, [](const Tensor& x) {
    const Tensor p = x.abs() + 0.5, s = torch::tanh(x) * 0.9;
    return Outputs{{"exp", x.exp()},
                   {"exp2", x.exp2()},
                   {"expm1", x.expm1()},
                   {"log", p.log()},
                   {"log1p", p.log1p()},
                   {"log2", p.log2()},
                   {"log10", p.log10()},
                   {"sqrt", p.sqrt()},
                   {"rsqrt", p.rsqrt()},
                   {"inv", p.reciprocal()},
                   {"sin", x.sin()},
                   {"cos", x.cos()},
                   {"tan", s.tan()},
                   {"asin", s.asin()},
                   {"acos", s.acos()},
                   {"atan", x.atan()},
                   {"sinh", s.sinh()},
                   {"cosh", s.cosh()},
                   {"asinh", x.asinh()},
                   {"acosh", (p + 1).acosh()},
                   {"atanh", s.atanh()},
                   {"erf", x.erf()},
                   {"erfc", x.erfc()},
                   {"floor", x.floor()},
                   {"ceil", x.ceil()},
                   {"round", (x * 2).round()},
                   {"trunc", (x * 3).trunc()},
                   {"sign", x.sign()},
                   {"neg", -x},
                   {"isnan", (x / x).isnan()},
                   {"finite", (x / (x - x)).isfinite()}};
  });
  write("comparisons", two, [](const Tensor& a, const Tensor& b) {
    const Tensor m = a > b;
    return Outputs{{"gt", m},
                   {"le", a <= 0.5},
                   {"eq", a == b},
                   {"ne", a != b},
                   {"and", m & (b > 0)},
                   {"or", m | (b > 0)},
                   {"not", ~m},
                   {"xor", torch::logical_xor(m, a)},
                   {"where", torch::where(m, a, b)},
                   {"number", torch::where(m, a, 7.0)},
                   {"masked", a.masked_fill(m, -1e9)},
                   {"clamp", a.clamp(-0.5, 0.5)},
                   {"least", a.clamp_min(0)},
                   {"reversed", a.clamp(1, -1)},
                   {"any", m.any()},
                   {"all", m.all(1)},
                   {"count", m.sum()},
                   {"sum_of_flags", m + m}};
  });
  write("integers", {integers("i", {kUnknown, 3}), floats("x", {kUnknown, 3})}, [](const Tensor& i, const Tensor& x) {
    const Tensor d = i + 1, s = i - 3;
    return Outputs{{"sum", i + 2},
                   {"float", i * 0.5},
                   {"mixed", i + x},
                   {"true_div", i / d},
                   {"mod", s % 4},
                   {"floor", torch::floor_divide(s, d)},
                   {"cut", torch::div(s, d, "trunc")},
                   {"pow", i.pow(2)},
                   {"mean", i.to(torch::kFloat).mean()},
                   {"total", i.sum(1)},
                   {"prod", d.prod(1)},
                   {"neg", -i},
                   {"bool", i.to(torch::kBool)},
                   {"small", i.to(torch::kChar) * 50},
                   {"exp", i.exp()},
                   {"byte", i.to(torch::kByte) + 255},
                   {"int", (i.to(torch::kInt) * 3) < 7},
                   {"rows", i.size(0) + i},
                   {"abs", s.abs()},
                   {"max", s.clamp(-1, 1)}};
  });
}

void write_activations() {
  write("activations", {floats("x", {kUnknown, 6})}, [](const Tensor& given) {
    const Tensor x = given * 3;
    return Outputs{{"relu", x.relu()},
                   {"relu6", torch::relu6(x)},
                   {"sigmoid", x.sigmoid()},
                   {"tanh", x.tanh()},
                   {"leaky", torch::leaky_relu(x, 0.2)},
                   {"elu", torch::elu(x, 0.7)},
                   {"selu", torch::selu(x)},
                   {"celu", torch::celu(x, 1.5)},
                   {"gelu", torch::gelu(x)},
                   {"gelu_tanh", torch::gelu(x, "tanh")},
                   {"silu", torch::silu(x)},
                   {"mish", torch::mish(x)},
                   {"softplus", torch::softplus(x, 2)},
                   {"softsign", F::softsign(x)},
                   {"hardtanh", torch::hardtanh(x)},
                   {"hardsigmoid", torch::hardsigmoid(x)},
                   {"hardswish", torch::hardswish(x)},
                   {"logsigmoid", torch::log_sigmoid(x)},
                   {"threshold", torch::threshold(x, 0.5, 7)},
                   {"prelu", torch::prelu(x, torch::full({6}, 0.3))},
                   {"glu", torch::glu(x, 1)},
                   {"softshrink", torch::softshrink(x)},
                   {"hardshrink", torch::hardshrink(x)},
                   {"softmax", torch::softmax(x, 0)},
                   {"log_softmax", torch::log_softmax(x, -1)},
                   {"softmin", F::softmin(x, F::SoftminFuncOptions(1))}};
  });
}

void write_shapes() {
  write("shapes", {floats("x", {kUnknown, 4, 6})}, [](const Tensor& x) {
    const Tensor part = x.slice(1, 1, -1);
    const auto halves = x.chunk(2, 2);
    const auto parts = x.split_with_sizes({1, 2, 1}, 1);
    const auto items = x.unbind(1);
    return Outputs{{"view", x.view({x.size(0), -1})},
                   {"rows", x.reshape({-1, 6})},
                   {"flatten", x.flatten(0, 1)},
                   {"unflatten", x.unflatten(2, {2, 3})},
                   {"squeeze", x.unsqueeze(1).squeeze(1)},
                   {"last", x.select(1, -1)},
                   {"part", part},
                   {"steps", x.slice(2, 0, 5, 2)},
                   {"narrow", x.narrow(2, 1, 3)},
                   {"permute", x.permute({2, 0, 1})},
                   {"transpose", x.transpose(-1, 0)},
                   {"move", x.movedim(0, 2)},
                   {"cat", torch::cat({x, part, x}, 1)},
                   {"stack", torch::stack({x, x + 1}, 1)},
                   {"second", halves[1]},
                   {"middle", parts[1]},
                   {"item", items[2]},
                   {"flip", x.flip({0, 2})},
                   {"repeat", x.repeat({2, 1, 1, 3})},
                   {"tile", x.tile({2})},
                   {"interleave", x.repeat_interleave(3, 1)},
                   {"expand", x.select(1, 0).unsqueeze(1).expand({-1, 5, -1})},
                   {"pad", torch::constant_pad_nd(x, {1, 2, 0, 1}, 7)},
                   {"crop", torch::constant_pad_nd(x, {-1, -2}, 0)},
                   {"reflect", torch::reflection_pad1d(x, {2, 1})},
                   {"edge", torch::replication_pad1d(x, {2, 1})},
                   {"tril", x.tril(1)},
                   {"triu", x.triu()},
                   {"first_rows", x.slice(0, 0, 1)},
                   {"last_rows", x.slice(0, x.size(0) - 1)},
                   {"ones", torch::ones({x.size(0), 2}) * 3},
                   {"zeros", torch::zeros_like(x).sum(1)},
                   {"range", torch::arange(x.size(0)) * 2},
                   {"full", torch::full({x.size(0)}, 2.5)},
                   {"twos", x.new_full({x.size(0), 1}, 2)}};
  });
  // Two sizes that are free, and products of them.
  write("two_sizes", {floats("x", {kUnknown, kUnknown, 3})}, [](const Tensor& x) {
    const Tensor tokens = x.reshape({x.size(0) * x.size(1), 3});
    return Outputs{{"tokens", tokens},
                   {"back", (tokens * 2).view({x.size(0), x.size(1), 3})},
                   {"heads", x.unsqueeze(3).expand({x.size(0), x.size(1), 3, 2}).reshape({x.size(0), x.size(1), 6})},
                   {"flat", x.flatten(1)},
                   {"mask", torch::ones({x.size(1), x.size(1)}).tril()},
                   {"joined", torch::cat({x, x.flip({1})}, 1).mean(1)},
                   {"sizes", x.sum() * x.size(1)}};
  });
}

void write_indexing() {
  const Tensor table = torch::randn({6, 3}), columns = torch::tensor({5, 1, 0});
  write("indexing", {floats("x", {kUnknown, 6}), integers("i", {kUnknown, 2})}, [&](const Tensor& x, const Tensor& i) {
    const auto [values, places] = x.topk(3, 1);
    const auto [sorted, order] = x.sort(1, /*descending=*/true);
    return Outputs{{"rows", table.index_select(0, i.select(1, 0))},
                   {"lookup", torch::embedding(table, i)},
                   {"gather", x.gather(1, i)},
                   {"index", table.index({i})},
                   {"columns", x.index_select(1, columns)},
                   {"one_hot", torch::one_hot(i, 6)},
                   {"topk", values},
                   {"places", places},
                   {"sorted", sorted},
                   {"order", order}};
  });
}

void write_reductions() {
  write("reductions", {floats("x", {kUnknown, 5, 3})}, [](const Tensor& x) {
    const auto [most, places] = x.max(1);
    return Outputs{{"sum", x.sum()},
                   {"sums", x.sum({0, 2}, true)},
                   {"mean", x.mean(-1)},
                   {"amax", x.amax({1, 2})},
                   {"amin", x.amin(0)},
                   {"prod", x.prod(1)},
                   {"most", most},
                   {"places", places},
                   {"least", x.min()},
                   {"argmax", x.argmax(2)},
                   {"argmin", x.argmin()},
                   {"var", x.var(1, /*unbiased=*/true)},
                   {"std", x.std({1, 2}, /*unbiased=*/false, /*keepdim=*/true)},
                   {"var_rows", x.slice(1, 0, 2).var({0, 1}, false)},
                   {"norm", x.norm(2, {1})},
                   {"l1", torch::linalg_vector_norm(x, 1, 2)},
                   {"lse", x.logsumexp(1)},
                   {"cumsum", x.cumsum(1)},
                   {"double", x.sum(1, false, torch::kDouble)}};
  });
}

void write_products() {
  const Tensor w = torch::randn({4, 3}), square = torch::randn({3, 3}), v = torch::randn(3);
  write("products", {floats("x", {kUnknown, 3}), floats("y", {kUnknown, 2, 3})}, [&](const Tensor& x, const Tensor& y) {
    return Outputs{{"linear", torch::linear(x, w, torch::arange(4.0F))},
                   {"linear3", torch::linear(y, w)},
                   {"linear3b", torch::linear(y, w, torch::arange(4.0F))},
                   {"mm", x.mm(square)},
                   {"mv", x.mv(v)},
                   {"dot", v.dot(v + 1) + x},
                   {"addmm", torch::addmm(v, x, square, 0.5, 2)},
                   {"bmm", y.bmm(y.transpose(1, 2))},
                   {"matmul", torch::matmul(y, square)},
                   {"baddbmm", torch::baddbmm(v, y, y.new_ones({y.size(0), 3, 3}), 2, 0.5)},
                   {"outer", torch::outer(v, v + 1) + x.sum()},
                   {"einsum", torch::einsum("bij,jk->bik", {y, square})},
                   {"tensordot", torch::tensordot(y, w, {2}, {1})},
                   {"vector", torch::matmul(y, v)}};
  });
}

void write_images() {
  const Tensor kernel = torch::randn({4, 2, 3, 3}) * 0.2, grouped = torch::randn({4, 1, 3, 2}) * 0.2,
               back = torch::randn({2, 3, 3, 3}), line = torch::randn({3, 4, 3}) * 0.1, bias = torch::randn(4);
  write("images", {floats("given", {kUnknown, 2, 8, 6})}, [&](const Tensor& given) {
    const Tensor x = given * 0.25;
    const Tensor y = torch::conv2d(x, kernel, bias, 1, 1);
    return Outputs{
        {"conv", y},
        {"strided",
         torch::conv2d(x, kernel, {}, at::IntArrayRef({2, 1}), at::IntArrayRef({0, 2}), at::IntArrayRef({1, 2}))},
        {"same", torch::conv2d(x, grouped, {}, 1, "same", 1, 2)},
        {"grouped", torch::conv2d(x, grouped, bias, 2, "valid", 1, 2)},
        {"line", torch::conv1d(y.flatten(2), line, {}, 2)},
        {"back", torch::conv_transpose2d(x, back, {}, 2, 1, 1)},
        {"volume", torch::conv3d(y.unsqueeze(1), torch::full({1, 1, 2, 2, 2}, 0.1))},
        {"max", torch::max_pool2d(y, 2)},
        {"max_padded", torch::max_pool2d(y, 3, 2, 1)},
        {"max_up", torch::max_pool2d(y, {3, 4}, {3, 4}, 0, 1, true)},
        {"mean", torch::avg_pool2d(y, 2)},
        {"mean_padded", torch::avg_pool2d(y, 3, 2, 1)},
        {"mean_inside", torch::avg_pool2d(y, 3, 2, 1, false, false)},
        {"line_max", torch::max_pool1d(y.flatten(2), 3)},
        {"global", torch::adaptive_avg_pool2d(y, {1, 1})},
        {"adaptive", torch::adaptive_avg_pool2d(y, {4, 2})},
        {"most", std::get<0>(torch::adaptive_max_pool2d(y, {2, 3}))},
        {"nearest",
         F::interpolate(x,
                        F::InterpolateFuncOptions().scale_factor(std::vector<double>{2, 1.5}).mode(torch::kNearest))},
        {"bilinear",
         F::interpolate(
             x,
             F::InterpolateFuncOptions().size(std::vector<int64_t>{5, 9}).mode(torch::kBilinear).align_corners(false))},
        {"corners",
         F::interpolate(
             x,
             F::InterpolateFuncOptions().size(std::vector<int64_t>{5, 9}).mode(torch::kBilinear).align_corners(true))},
        {"shuffle", torch::pixel_shuffle(y, 2)}};
  });
  write("fully_convolutional", {floats("x", {kUnknown, 2, kUnknown, kUnknown})}, [&](const Tensor& x) {
    const Tensor y = torch::max_pool2d(torch::relu(torch::conv2d(x, kernel, bias, 1, 1)), 2);
    return Outputs{{"mean", y.mean({2, 3})}, {"map", y}, {"global", torch::adaptive_avg_pool2d(y, {1, 1}).flatten(1)}};
  });
}

void write_norms() {
  const Tensor w = torch::rand(4) + 0.5, b = torch::randn(4), m = torch::randn(4), v = torch::rand(4) + 0.5;
  write("norms", {floats("x", {kUnknown, 4, 6})}, [&](const Tensor& x) {
    return Outputs{{"batch", torch::batch_norm(x, w, b, m, v, false, 0.1, 1e-3, false)},
                   {"plain", torch::batch_norm(x, {}, {}, m, v, false, 0.1, 1e-5, false)},
                   {"layer", torch::layer_norm(x, {6})},
                   {"layer2", torch::layer_norm(x, {4, 6}, torch::ones({4, 6}) * 2, {}, 1e-6)},
                   {"group", torch::group_norm(x, 2, w, b, 1e-4)},
                   {"instance", torch::instance_norm(x, w, b, {}, {}, true, 0.1, 1e-5, false)},
                   {"running", torch::instance_norm(x, w, b, m, v, false, 0.1, 1e-5, false)},
                   {"rms", torch::rms_norm(x, {6}, torch::ones(6) * 3)},
                   {"rms_eps", torch::rms_norm(x, {6}, {}, 1e-3)},
                   {"dropout", torch::dropout(x, 0.5, false)}};
  });
}

template <class Layer>
Outputs run_layer(Layer& layer, const Tensor& x) {
  auto [values, state] = layer->forward(x);
  if constexpr (requires { std::get<0>(state); })
    return {{"values", values}, {"hidden", std::get<0>(state)}, {"cell", std::get<1>(state)}};
  else
    return {{"values", values}, {"state", state}};
}

void write_recurrent() {
  using torch::nn::GRU, torch::nn::GRUOptions, torch::nn::LSTM, torch::nn::LSTMOptions, torch::nn::RNN,
      torch::nn::RNNOptions;
  const std::vector<saved_model::Spec> sequences = {floats("x", {kUnknown, 5, 3})},
                                       columns = {floats("x", {5, kUnknown, 3})};
  LSTM deep(LSTMOptions(3, 4).num_layers(2).bidirectional(true).batch_first(true));
  write("lstm_deep", sequences, [&](const Tensor& x) { return run_layer(deep, x); });
  LSTM bare(LSTMOptions(3, 4).bias(false));
  write("lstm_time_first", columns, [&](const Tensor& x) { return run_layer(bare, x); });
  GRU gru(GRUOptions(3, 4).num_layers(2).bidirectional(true).batch_first(true));
  write("gru_deep", sequences, [&](const Tensor& x) { return run_layer(gru, x); });
  RNN relu(RNNOptions(3, 4).nonlinearity(torch::kReLU).bidirectional(true).batch_first(true));
  write("rnn_relu", sequences, [&](const Tensor& x) { return run_layer(relu, x); });
  RNN tanh(RNNOptions(3, 4).batch_first(true));
  write("rnn_tanh", sequences, [&](const Tensor& x) { return run_layer(tanh, x); });
  torch::nn::LSTMCell lstm_cell(3, 4);
  torch::nn::GRUCell gru_cell(3, 4);
  write("cells", {floats("x", {kUnknown, 3})}, [&](const Tensor& x) {
    Tensor h = torch::zeros({x.size(0), 4}), c = h, g = h;
    for (int i = 0; i < 3; ++i) {
      std::tie(h, c) = lstm_cell->forward(x * i, std::tuple(h, c));
      g = gru_cell->forward(x + i, g);
    }
    return Outputs{{"h", h}, {"c", c}, {"g", g}};
  });
}

void write_attention() {
  write("attention",
        {floats("q", {kUnknown, 2, 5, 4}), floats("k", {kUnknown, 2, 5, 4}), floats("mask", {5, 5}, torch::kBool)},
        [](const Tensor& q, const Tensor& k, const Tensor& mask) {
          const Tensor none = mask.logical_and(torch::arange(5).unsqueeze(1) > 1);  // whose first rows see nothing
          return Outputs{
              {"plain", torch::scaled_dot_product_attention(q, k, k)},
              {"causal", torch::scaled_dot_product_attention(q, k, k, {}, 0, true)},
              {"masked", torch::scaled_dot_product_attention(q, k, k, none)},
              {"added", torch::scaled_dot_product_attention(q, k, k, torch::ones({5, 5}).tril(), 0, false, 0.3)}};
        });
  write("attention_any_length", {floats("x", {kUnknown, kUnknown, 8})}, [](const Tensor& x) {
    const Tensor heads = x.view({x.size(0), x.size(1), 2, 4}).transpose(1, 2);
    const Tensor seen = torch::scaled_dot_product_attention(heads, heads, heads, {}, 0, true);
    return seen.transpose(1, 2).reshape({x.size(0), x.size(1), 8});
  });
  torch::nn::MultiheadAttention layer(8, 2);
  layer->eval();
  write("multihead_attention", {floats("x", {5, kUnknown, 8})}, [&](const Tensor& x) {
    const auto [values, weights] = layer->forward(x, x, x);
    return Outputs{{"values", values}, {"weights", weights}};
  });
}

void write_dtypes() {
  const Tensor flags = torch::tensor({true, false, true}),
               numbers = torch::tensor({int64_t{5}, int64_t{-7}, int64_t{1} << 40});
  write("constants", {floats("x", {kUnknown, 3})}, [&](const Tensor& x) {
    return Outputs{{"bool", x * flags},
                   {"long", x.to(torch::kLong) + numbers},
                   {"scalar", x * torch::tensor(2.5)},
                   {"double", x.to(torch::kDouble) + torch::full({3}, 1e-12, torch::kDouble)},
                   {"empty", torch::cat({x, torch::zeros({x.size(0), 0})}, 1)},
                   {"none", torch::zeros({0, 3}) + x.sum()},
                   {"where", torch::where(flags, x, torch::zeros(3))},
                   {"alone", torch::arange(4)},
                   {"half", x.to(torch::kHalf) + torch::ones(3, torch::kHalf)},
                   {"bfloat16", x.to(torch::kBFloat16) + torch::ones(3, torch::kBFloat16)}};
  });
  for (const at::ScalarType dtype : {torch::kDouble, torch::kHalf, torch::kBFloat16}) {
    const Tensor w = torch::randn({3, 4}).to(dtype), b = torch::randn(4).to(dtype);
    write("dense_" + std::string(at::toString(dtype)), {floats("x", {kUnknown, 3}, dtype)}, [&](const Tensor& x) {
      return Outputs{{"y", torch::softmax(torch::tanh(torch::addmm(b, x, w)), 1)},
                     {"sum", x.sum(0) + 1},
                     {"rows", x.view({-1, 1})},
                     {"picked", x.slice(1, 1, 3).transpose(0, 1)}};
    });
  }
}

// Names that nodes would have, that come twice, and inputs that nothing reads.
void write_names() {
  write("names",
        {floats("MatMul", {kUnknown, 3}), floats("constant", {}), floats("unused", {kUnknown, 2}),
         floats("a name/with: signs", {3})},
        [w = torch::randn({3, 3})](const Tensor& x, const Tensor& number, const Tensor&, const Tensor& row) {
          const Tensor y = x.matmul(w) + number;
          return Outputs{{"Add", y},      {"same", y}, {"itself", x}, {"weight", w}, {"Add_1", row * number},
                         {"only", number}};
        });
  Tensor shared = torch::randn({16, 16});
  write("shared", {floats("x", {kUnknown, 16})},
        [=](const Tensor& x) { return x.matmul(shared).relu().matmul(shared.t()).matmul(shared); });
  write("external", {floats("x", {kUnknown, 16})},
        [=](const Tensor& x) {
          return torch::linear(x.matmul(shared) + torch::arange(16.0F), shared, shared.select(0, 0));
        },
        {1, 4, 9}, {.external_weights_above = 0});
  write("in_place", {floats("x", {kUnknown, 4})}, [](const Tensor& x) {
    Tensor y = x * 2, z = at::empty_like(x);
    y.add_(1).relu_().view({-1, 2}).mul(3);
    z.copy_(y.select(1, 0).unsqueeze(1));
    return Outputs{{"y", y}, {"z", z}, {"filled", torch::zeros_like(y).fill_(3) + z}};
  });
  write("no_rows", {floats("x", {kUnknown, 4})},
        [](const Tensor& x) {
          return Outputs{{"y", torch::relu(x * 2).view({x.size(0), 2, 2})}, {"rows", x.flatten()}, {"sum", x.sum(0)}};
        },
        {0, 3});
}

// Keras's layers, each as a model of its own.
void write_layer(const std::string& name, const keras::layers::Layer& layer, const std::vector<int64_t>& sample_shape,
                 at::ScalarType dtype = torch::kFloat) {
  std::vector<int64_t> shape = sample_shape;
  shape.insert(shape.begin(), kUnknown);
  const keras::Sequential model({layer});
  model(sample(floats("x", shape, dtype), 3));
  write("keras_" + name, {floats("x", shape, dtype)}, [=](const Tensor& x) { return model(x); });
}

void write_image_layers() {
  using namespace keras::layers;
  constexpr auto same = Padding::same;
  const std::vector<int64_t> line = {9, 4}, image = {7, 6, 4}, volume = {5, 4, 6, 2};
  write_layer("conv1d", Conv1D({.filters = 3, .padding = Padding::causal, .dilation_rate = {2}}), line);
  write_layer("conv2d", Conv2D({.filters = 4, .strides = {2, 1}, .padding = same, .groups = 2}), image);
  write_layer("conv3d", Conv3D({.filters = 3, .strides = {2, 1, 2}, .padding = same}), volume);
  write_layer("conv1d_transpose", Conv1DTranspose({.filters = 3, .strides = {2}}), line);
  write_layer("conv2d_transpose", Conv2DTranspose({.filters = 3, .strides = {2, 3}, .padding = same}), image);
  write_layer("depthwise", DepthwiseConv2D({.padding = same}), image);
  write_layer("separable", SeparableConv2D({.filters = 3, .strides = {2, 2}, .depth_multiplier = 2}), image);
  write_layer("max_pooling", MaxPooling2D({.padding = same}), image);
  write_layer("average_pooling", AveragePooling2D({.padding = same}), image);
  write_layer("average_pooling3d", AveragePooling3D({.padding = same}), volume);
  write_layer("global_max", GlobalMaxPooling2D({.keepdims = true}), image);
  write_layer("global_average", GlobalAveragePooling3D(), volume);
  write_layer("group_normalization", GroupNormalization({.groups = 2}), image);
  write_layer("layer_normalization", LayerNormalization({.axis = {1, 3}}), image);
  write_layer("rms_normalization", RMSNormalization(), line);
  write_layer("unit_normalization", UnitNormalization(), line);
  write_layer("batch_normalization", BatchNormalization(), image);
  write_layer("permute", Permute({.dims = {3, 1, 2}}), image);
  write_layer("reshape", Reshape({.target_shape = {2, -1}}), image);
  write_layer("cropping", Cropping2D({.cropping = {1, 0, 2, 1}}), image);
  write_layer("zero_padding", ZeroPadding2D(), image);
  write_layer("up_sampling", UpSampling2D({.size = {2, 3}}), image);
  write_layer("up_sampling_bilinear", UpSampling2D({.interpolation = Interpolation::bilinear}), image);
  write_layer("up_sampling1d", UpSampling1D(), line);
  write_layer("conv_lstm", ConvLSTM2D({.filters = 2, .return_sequences = true}), {3, 5, 6, 2});
}

void write_vector_layers() {
  using namespace keras::layers;
  const std::vector<int64_t> row = {6}, sequence = {5, 4}, words = {7};
  write_layer("activation", Activation(keras::activations::swish), row);
  write_layer("relu", ReLU({.max_value = 1, .negative_slope = 0.1, .threshold = 0.2}), row);
  write_layer("prelu", PReLU({.alpha_initializer = keras::initializers::Constant(0.3)}), sequence);
  write_layer("elu", ELU({.alpha = 0.5}), row);
  write_layer("softmax", Softmax({.axis = 1}), sequence);
  write_layer("repeat_vector", RepeatVector({.n = 3}), row);
  write_layer("einsum_dense", EinsumDense({.equation = "abc,cd->abd", .output_shape = {5, 3}, .bias_axes = "d"}),
              sequence);
  write_layer("simple_rnn", SimpleRNN({.units = 3, .return_sequences = true}), sequence);
  write_layer("lstm_backwards", LSTM({.units = 3, .return_sequences = true, .go_backwards = true}), sequence);
  write_layer("bidirectional", Bidirectional(LSTM({.units = 3})), sequence);
  write_layer("time_distributed", TimeDistributed(Dense({.units = 3})), sequence);
  write_layer("normalization", Normalization({.mean = torch::full({6}, 1.5), .variance = torch::full({6}, 4.0)}), row);
  write_layer("rescaling", Rescaling({.scale = 0.5, .offset = -1}), row);
  write_layer("embedding", Embedding({.input_dim = 6, .output_dim = 3}), words, torch::kLong);
  const keras::Sequential masked({Embedding({.input_dim = 6, .output_dim = 3, .mask_zero = true}), LSTM({.units = 4})});
  masked(torch::ones({2, 7}, torch::kLong));
  write("keras_masked_lstm", {integers("x", {kUnknown, 7})}, [=](const Tensor& x) { return masked(x); });
  const auto ids = keras::Input({.shape = {7}});
  const auto embedded = Embedding({.input_dim = 6, .output_dim = 8, .mask_zero = true})(ids);
  const auto seen = MultiHeadAttention({.num_heads = 2, .key_dim = 4})({embedded, embedded});
  const auto dot = Attention()({embedded, seen});
  const auto mean = GlobalAveragePooling1D()(Concatenate()({Multiply()({seen, dot}), Subtract()({seen, embedded})}));
  const keras::Model attending({.inputs = {ids}, .outputs = {Dense({.units = 2})(mean)}});
  write("keras_masked_attention", {integers("x", {kUnknown, 7})}, [=](const Tensor& x) { return attending(x); });
}

}  // namespace

int main(int, char** argv) {
  root = argv[1];
  std::filesystem::create_directories(root);
  torch::set_num_threads(1);
  torch::manual_seed(1);
  write_pointwise();
  write_activations();
  write_shapes();
  write_indexing();
  write_reductions();
  write_products();
  write_images();
  write_norms();
  write_recurrent();
  write_attention();
  write_dtypes();
  write_names();
  write_image_layers();
  write_vector_layers();
  return num_failed ? 1 : 0;
}
