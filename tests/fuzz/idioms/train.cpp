// One training program with all idioms, written once for plain LibTorch, replicas and global view.
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <sstream>

#include "idioms.h"
#include "tutti/collectives/processes.h"
#include "tutti/tensor/torch_device.h"
#include "tutti/tutti.h"

namespace tutti::fuzz {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

constexpr int64_t kBatch = 12, kFeatures = 4, kHidden = 6;
constexpr int kSteps = 8;
constexpr int kGlobalDevices = 3;  // in global view, of each process

Tensor numbers(at::IntArrayRef sizes, int64_t step, int64_t start) {
  return torch::arange(c10::multiply_integers(sizes))
      .mul(step)
      .add(start)
      .remainder(31)
      .sub(15)
      .to(torch::kDouble)
      .div(32)
      .reshape(sizes);
}

struct Square : torch::autograd::Function<Square> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x) {
    context->save_for_backward({x});
    return x * x;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    return {gradients[0] * 2 * context->get_saved_variables()[0]};
  }
};

struct NetImpl : nn::Cloneable<NetImpl> {
  explicit NetImpl(const Choice& c) : choice(c) { reset(); }
  void reset() override {
    first = register_module("first", nn::Linear(nn::LinearOptions(kFeatures, kHidden)));
    if (choice.has(Idiom::recurrent)) cell = register_module("cell", nn::GRUCell(kHidden, kHidden));
    if (!choice.has(Idiom::tie_weights)) last = register_module("last", nn::Linear(kHidden, kFeatures));
    if (choice.has(Idiom::running_buffer)) running = register_buffer("running", torch::zeros({kHidden}));
    if (choice.has(Idiom::embed))
      words = register_module("words",
                              nn::Embedding(nn::EmbeddingOptions(5, kHidden).sparse(choice.has(Idiom::sparse_words))));
    if (choice.has(Idiom::temperature)) temperature = register_parameter("temperature", torch::zeros({}));
    if (choice.has(Idiom::convolve))
      convolution = register_module("convolution", nn::Conv1d(nn::Conv1dOptions(1, 2, 3).padding(1)));
    if (choice.has(Idiom::normalize_layer))
      layer_norm = register_module("layer_norm", nn::LayerNorm(nn::LayerNormOptions({kHidden})));
    if (choice.has(Idiom::normalize_batch)) batch_norm = register_module("batch_norm", nn::BatchNorm1d(kHidden));
    if (choice.has(Idiom::reparametrize)) gain = register_parameter("gain", torch::ones({kFeatures, 1}));
  }
  // The output, and the state after it.
  std::pair<Tensor, Tensor> forward(const Tensor& x, Tensor state) {
    Tensor hidden = torch::tanh(first(x));
    if (choice.has(Idiom::custom_function)) hidden = Square::apply(hidden);
    if (words) hidden = hidden + words((x.detach().select(1, 0) * 32).to(torch::kLong).remainder(5));
    if (convolution) hidden = hidden + convolution(hidden.unsqueeze(1)).mean(1);
    if (choice.has(Idiom::attend)) {
      const Tensor heads = hidden.view({-1, 1, kHidden / 2, 2});
      hidden = at::scaled_dot_product_attention(heads, heads * 0.5, heads).reshape({-1, kHidden});
    }
    if (layer_norm) hidden = layer_norm(hidden);
    if (batch_norm) hidden = batch_norm(hidden);
    if (choice.has(Idiom::dropout)) hidden = torch::dropout(hidden, 0.25, is_training());
    if (cell) {
      if (choice.has(Idiom::state_in_module)) state = kept;
      if (!state.defined()) state = torch::zeros_like(hidden);
      state = hidden = cell(hidden, state.detach());
      if (choice.has(Idiom::state_in_module)) kept = state;
    }
    if (running.defined() && is_training()) {
      const torch::NoGradGuard guard;
      running.mul_(0.5).add_(hidden.detach().mean(0), 0.5);
    }
    const Tensor out = output(hidden);
    return {temperature.defined() ? out * temperature.exp() : out, state};
  }
  Tensor output(const Tensor& hidden) {
    if (!last) return torch::linear(hidden, first->weight.t());
    if (!gain.defined()) return last(hidden);
    const Tensor length = last->weight.square().sum({1}, /*keepdim=*/true).add(1e-3).sqrt();
    return torch::linear(hidden, last->weight * (gain / length), last->bias);
  }
  Choice choice;
  nn::Linear first{nullptr}, last{nullptr};
  nn::GRUCell cell{nullptr};
  nn::Embedding words{nullptr};
  nn::Conv1d convolution{nullptr};
  nn::LayerNorm layer_norm{nullptr};
  nn::BatchNorm1d batch_norm{nullptr};
  Tensor running, gain, temperature, kept;
};
TORCH_MODULE(Net);

// Where a program trains.
class World {
 public:
  using Step = std::function<Tensor(const Tensor& x, const Tensor& y, size_t part)>;
  virtual ~World() = default;
  virtual bool is_plain() const { return true; }
  virtual std::shared_ptr<Processes> processes() const { return nullptr; }
  virtual void build(const std::function<void()>& f) { f(); }
  // Runs the step on the parts of a batch. Returns the sum of what they give.
  virtual Tensor step(const Step& f, const Tensor& x, const Tensor& y) { return f(x, y, 0); }
  virtual size_t parts() const { return 1; }  // in this process
  // Of what does not depend on the batch, which every part adds.
  virtual double share() const { return 1; }
  virtual Tensor whole(const Tensor& tensor) { return tensor; }
};

std::vector<Device> devices_of(int count, const Choice& choice) {
  if (!choice.gpus) return configure_logical_cpus(count);
  const auto gpus = list_physical_devices(DeviceType::gpu);
  if (gpus.size() >= static_cast<size_t>(count)) return {gpus.begin(), gpus.begin() + count};
  return configure_logical_devices("GPU:0", std::vector<LogicalDeviceOptions>(static_cast<size_t>(count)));
}

class Replicas : public World {
 public:
  explicit Replicas(std::shared_ptr<Strategy> strategy) : strategy_(std::move(strategy)) {}
  bool is_plain() const override { return false; }
  std::shared_ptr<Processes> processes() const override { return strategy_->processes(); }
  void build(const std::function<void()>& f) override { strategy_->build(f); }
  Tensor step(const Step& f, const Tensor& x, const Tensor& y) override {
    const auto results = strategy_->run(
        [&](const Tensor& part_x, const Tensor& part_y) {
          const auto part =
              static_cast<size_t>(get_replica_context().replica_id_in_sync_group() - strategy_->first_local_replica());
          const c10::Device here = torch_device(strategy_->devices()[part]);
          return f(part_x.to(here), part_y.to(here), part);
        },
        own_parts(x), own_parts(y));
    return strategy_->reduce(ReduceOp::sum, results);
  }
  size_t parts() const override { return strategy_->devices().size(); }
  double share() const override { return 1.0 / static_cast<double>(strategy_->num_replicas_in_sync()); }
  Tensor whole(const Tensor& tensor) override { return gather(tensor); }

 private:
  PerReplica<Tensor> own_parts(const Tensor& batch) const {
    const auto all = batch.chunk(strategy_->num_replicas_in_sync());
    const auto first = all.begin() + strategy_->first_local_replica();
    return PerReplica<Tensor>(std::vector<Tensor>(first, first + static_cast<int64_t>(parts())));
  }

  const std::shared_ptr<Strategy> strategy_;
};

class GlobalView : public World {
 public:
  GlobalView(const Mesh& mesh, std::shared_ptr<Processes> processes) : mesh_(mesh), processes_(std::move(processes)) {}
  bool is_plain() const override { return false; }
  std::shared_ptr<Processes> processes() const override { return processes_; }
  void build(const std::function<void()>& f) override {
    const LayoutScope scope(mesh_);
    f();
  }
  Tensor step(const Step& f, const Tensor& x, const Tensor& y) override {
    const auto shard = [&](const Tensor& t) {
      return distribute_tensor(t, Layout::batch_sharded(mesh_, "replica", static_cast<int>(t.dim())));
    };
    return f(shard(x), shard(y), 0);
  }
  Tensor whole(const Tensor& tensor) override { return gather(tensor); }

 private:
  const Mesh mesh_;
  const std::shared_ptr<Processes> processes_;
};

void fill(nn::Module& module, int64_t start) {
  const torch::NoGradGuard guard;
  for (Tensor& parameter : module.parameters()) parameter.copy_(numbers(parameter.sizes(), 7, start++));
}

class Program {
 public:
  using Call = std::function<Tensor(const Tensor& x, const Tensor& y)>;

  Program(World& world, const Choice& choice) : world_(world), c_(choice), states_(world.parts()) {}

  std::vector<Number> run() {
    world_.build([&] { net_ = Net(c_); });
    fill(*net_, 3);
    if (c_.has(Idiom::adversary)) {
      world_.build([&] { adversary_ = nn::Linear(kFeatures, 1); });
      fill(*adversary_, 11);
      adversary_sgd_ = std::make_unique<torch::optim::SGD>(adversary_->parameters(), 0.05);
    }
    if (c_.has(Idiom::target_network)) {
      world_.build([&] { target_ = Net(c_); });
      follow(1);
    }
    make_optimizer();
    if (c_.has(Idiom::scale_loss) && !world_.is_plain())
      scaler_.emplace(GradScalerOptions{.init_scale = 8, .growth_interval = 2});
    if (c_.has(Idiom::hook)) net_->first->weight.register_hook([](const Tensor& gradient) { return gradient * 0.5; });
    if (c_.has(Idiom::anchor)) anchor_ = net_->first->weight.detach();
    if (c_.has(Idiom::ema) || c_.has(Idiom::ema_by_data))
      for (const Tensor& p : net_->parameters()) ema_.push_back(p.detach().clone());
    make_calls();
    if (c_.has(Idiom::evaluate) || c_.has(Idiom::evaluate_inference)) evaluate();
    for (int t = 0; t < kSteps; ++t) {
      train_step(t);
      if (c_.has(Idiom::evaluate_often) && t % 3 == 2) evaluate();
      if (c_.has(Idiom::checkpoint) && t == 4) lose_and_restore();
    }
    if (c_.has(Idiom::evaluate)) evaluate();
    report();
    return std::move(numbers_);
  }

 private:
  void note(const std::string& name, const Tensor& tensor) {
    const Tensor value = world_.whole(tensor.detach()).cpu().to(torch::kDouble).reshape({-1}).contiguous();
    numbers_.push_back({name, {value.data_ptr<double>(), value.data_ptr<double>() + value.numel()}});
  }

  void make_optimizer() {
    std::vector<torch::optim::OptimizerParamGroup> groups;
    if (c_.has(Idiom::add_group)) {
      groups.emplace_back(net_->first->parameters());
    } else if (c_.has(Idiom::param_groups)) {
      groups.emplace_back(net_->first->parameters());
      std::vector<Tensor> others;
      for (const auto& item : net_->named_parameters())
        if (item.key().rfind("first.", 0) != 0) others.push_back(item.value());
      if (!others.empty()) groups.emplace_back(others);
    } else {
      groups.emplace_back(net_->parameters());
    }
    const auto options = torch::optim::SGDOptions(0.1).momentum(c_.has(Idiom::momentum) ? 0.5 : 0);
    if (c_.has(Idiom::lbfgs))
      optimizer_ = std::make_shared<torch::optim::LBFGS>(groups, torch::optim::LBFGSOptions(0.1).max_iter(2));
    else if (c_.has(Idiom::adam))
      optimizer_ = std::make_shared<torch::optim::Adam>(groups, torch::optim::AdamOptions(0.02));
    else
      optimizer_ = std::make_shared<torch::optim::SGD>(groups, options);
    if (c_.has(Idiom::step_inside))
      inside_ = std::make_unique<Optimizer<torch::optim::SGD>>(torch::optim::SGD(groups, options));
    if (c_.has(Idiom::scheduler)) scheduler_ = std::make_unique<torch::optim::StepLR>(*optimizer_, 2, 0.5);
  }

  Tensor x_of(int t) const { return numbers({kBatch, kFeatures}, 11, 5 * t); }
  Tensor y_of(int t) const { return numbers({kBatch, kFeatures}, 13, 3 * t + 1); }

  Tensor loss(const Tensor& x, const Tensor& y, size_t part) {
    const auto [out, state] = net_->forward(x, states_[part]);
    if (state.defined()) states_[part] = state;
    Tensor total = (out - y).square().sum() / kBatch;
    if (target_) {
      Tensor wanted;
      {
        const torch::NoGradGuard guard;
        wanted = target_->forward(x, {}).first;
      }
      total = total + (out - wanted).square().sum() / kBatch;
    }
    if (c_.has(Idiom::anchor)) total = total + world_.share() * (net_->first->weight - anchor_ * 0.5).square().sum();
    if (c_.has(Idiom::adversary)) total = total - adversary_(out).tanh().sum() / kBatch;
    if (c_.has(Idiom::fast_weights)) total = total + loss_after_step(x, y);
    return total;
  }
  Tensor loss_after_step(const Tensor& x, const Tensor& y) {
    const Tensor hidden = torch::tanh(net_->first(x)),
                 weight = c_.replicas > 0 ? local(net_->last->weight) : net_->last->weight;
    const auto loss_with = [&](const Tensor& w) { return (torch::linear(hidden, w) - y).square().sum() / kBatch; };
    const Tensor gradient = torch::autograd::grad({loss_with(weight)}, {weight}, {}, true, /*create_graph=*/true)[0];
    return loss_with(weight - 0.1 * gradient);
  }

  Tensor step_of_part(const Tensor& x, const Tensor& y, size_t part) {
    if (inside_) inside_->zero_grad();
    Tensor total = loss(x, y, part);
    if (c_.has(Idiom::penalty)) {
      const Tensor input = x.detach().clone().requires_grad_();
      const Tensor out = net_->forward(input, {}).first.sum();
      const Tensor gradient = torch::autograd::grad({out}, {input}, {}, true, true)[0];
      total = total + gradient.square().sum() / kBatch;
    }
    const Tensor scaled = scaler_ ? scaler_->scale(total) : total;
    if (c_.has(Idiom::two_losses)) {
      (scaled * 0.25).backward({}, /*retain_graph=*/true);
      (scaled * 0.75).backward();
    } else {
      scaled.backward();
    }
    if (inside_) inside_->step();
    return total.detach();
  }

  // What a function would hold on to, as the modules, is there already.
  void make_calls() {
    const auto may_be_recorded = [&](const Call& call) {
      return c_.recorded && !world_.is_plain() ? Call(function(call)) : call;
    };
    step_ = may_be_recorded([this](const Tensor& x, const Tensor& y) {
      if (c_.has(Idiom::update_in_call)) zero_grad();
      const Tensor total = world_.step(
          [&](const Tensor& part_x, const Tensor& part_y, size_t part) { return step_of_part(part_x, part_y, part); },
          x, y);
      if (c_.has(Idiom::update_in_call)) update();
      return total;
    });
    error_ = may_be_recorded([this](const Tensor& x, const Tensor& y) {
      return world_.step(
          [&](const Tensor& part_x, const Tensor& part_y, size_t) {
            std::optional<torch::NoGradGuard> guard;
            std::optional<c10::InferenceMode> inference;
            if (c_.has(Idiom::evaluate_inference))
              inference.emplace();
            else
              guard.emplace();
            return (net_->forward(part_x, {}).first - part_y).square().sum();
          },
          x, y);
    });
  }
  void zero_grad() { optimizer_->zero_grad(!c_.has(Idiom::keep_gradients)); }

  void train_step(int t) {
    if (c_.has(Idiom::freeze) && (t == 2 || t == 4))
      for (Tensor& p : net_->first->parameters()) p.requires_grad_(t == 4);
    if (t == 3) exchange();
    if (c_.has(Idiom::adversary)) step_adversary(t);
    const bool updates = !inside_ && !c_.has(Idiom::update_in_call);
    if (updates && (!c_.has(Idiom::accumulate) || t % 2 == 0)) zero_grad();
    if (c_.has(Idiom::add_group) && t == 2) add_later_layers();
    if (c_.has(Idiom::lbfgs)) {
      optimizer_->step([&] {
        zero_grad();
        return world_.whole(step_(x_of(t), y_of(t)));
      });
      return after_update(t);
    }
    if (c_.has(Idiom::perturb)) perturb(t);
    const Tensor total = step_(x_of(t), y_of(t));
    if (c_.has(Idiom::loss_history))
      history_.push_back(total);
    else
      note("loss " + std::to_string(t), total);
    if (inside_ || (c_.has(Idiom::accumulate) && t % 2 == 0)) return;
    if (updates) update();
    after_update(t);
  }

  void add_later_layers() {
    std::vector<Tensor> later;
    for (const auto& item : net_->named_parameters())
      if (item.key().rfind("first.", 0) != 0) later.push_back(item.value());
    if (!later.empty()) optimizer_->add_param_group(torch::optim::OptimizerParamGroup(later));
  }

  // The weights are moved before the step, and moved back before the update.
  void perturb(int t) {
    step_(x_of(t), y_of(t));
    const torch::NoGradGuard guard;
    for (Tensor& p : net_->parameters()) {
      moves_.push_back(p.grad().defined() ? p.grad() * 0.05 : Tensor());
      if (moves_.back().defined()) p.add_(moves_.back());
    }
    zero_grad();
  }
  void move_back() {
    const torch::NoGradGuard guard;
    const auto parameters = net_->parameters();
    for (size_t i = 0; i < moves_.size(); ++i)
      if (moves_[i].defined()) Tensor(parameters[i]).sub_(moves_[i]);
    moves_.clear();
  }

  void step_adversary(int t) {
    adversary_sgd_->zero_grad();
    world_.step(
        [&](const Tensor& x, const Tensor& y, size_t part) {
          const Tensor made = net_->forward(x, states_[part]).first.detach();
          const Tensor total = (adversary_(made).tanh().sum() - adversary_(y).tanh().sum()) / kBatch;
          total.backward();
          return total.detach();
        },
        x_of(t), y_of(t));
    adversary_sgd_->step();
  }

  void update() {
    move_back();
    if (scaler_) scaler_->unscale_(*optimizer_);
    if (c_.has(Idiom::decay_by_hand)) {
      const torch::NoGradGuard guard;
      for (Tensor& p : net_->parameters())
        if (p.grad().defined()) p.mutable_grad() = p.grad().add(p, 0.01);
    }
    if (c_.has(Idiom::clip_norm)) nn::utils::clip_grad_norm_(net_->parameters(), 0.5);
    if (c_.has(Idiom::clip_value)) nn::utils::clip_grad_value_(net_->parameters(), 0.1);
    if (scaler_) {
      scaler_->step(*optimizer_);
      scaler_->update();
    } else {
      optimizer_->step();
    }
    if (scheduler_) scheduler_->step();
  }

  void after_update(int t) {
    if (c_.has(Idiom::clamp_data))
      for (Tensor& p : net_->parameters()) p.data().clamp_(-0.4, 0.4);
    const bool replaces = !c_.recorded || t == 5;  // what a function uses
    if (c_.has(Idiom::set_data) && replaces)
      for (Tensor& p : net_->parameters()) p.set_data(p.data().clamp(-0.4, 0.4));
    if (c_.has(Idiom::vector) && replaces) {
      const torch::NoGradGuard guard;
      nn::utils::vector_to_parameters(nn::utils::parameters_to_vector(net_->parameters()).mul(0.99),
                                      net_->parameters());
    }
    const auto parameters = net_->parameters();
    for (size_t i = 0; i < ema_.size(); ++i) {
      const torch::NoGradGuard guard;
      if (c_.has(Idiom::ema))
        ema_[i].lerp_(parameters[i], 0.25);
      else
        ema_[i].data().mul_(0.75).add_(parameters[i].data(), 0.25);
    }
    if (c_.has(Idiom::look_ahead) && t % 3 == 0) look_ahead(parameters);
    if (c_.has(Idiom::target_network) && t % 2 == 1) follow(0.5);
  }

  void look_ahead(const std::vector<Tensor>& parameters) {
    const torch::NoGradGuard guard;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (i == slow_.size())
        slow_.push_back(parameters[i].clone());
      else
        Tensor(parameters[i]).copy_(slow_[i].lerp_(parameters[i], 0.5));
    }
  }

  void follow(double amount) {
    const torch::NoGradGuard guard;
    auto to = target_->parameters();
    const auto from = net_->parameters();
    for (size_t i = 0; i < to.size(); ++i) to[i].mul_(1 - amount).add_(from[i], amount);
  }

  // Goes on with what was saved and loaded, or with a clone.
  void exchange() {
    if (c_.has(Idiom::save)) {
      std::stringstream model, state;
      torch::save(net_, model);
      torch::save(inside_ ? inside_->get() : *optimizer_, state);
      world_.build([&] { net_ = Net(c_); });
      torch::load(net_, model);
      make_optimizer();
      torch::load(inside_ ? inside_->get() : *optimizer_, state);
      make_calls();
    } else if (c_.has(Idiom::clone)) {
      const Tensor kept = net_->kept;
      world_.build([&] { net_ = Net(std::dynamic_pointer_cast<NetImpl>(net_->clone())); });
      net_->kept = kept;
      make_optimizer();
      make_calls();
    }
  }

  void evaluate() {
    net_->eval();
    const Tensor total = error_(x_of(9), y_of(9));
    note("evaluation", total.clone());
    net_->kept = Tensor();
    net_->train();
  }

  // All processes share one folder.
  void lose_and_restore() {
    if (world_.is_plain()) return;
    const auto processes = world_.processes();
    const std::filesystem::path folder = on_chief(processes, "name a folder", [] {
      return (std::filesystem::temp_directory_path() / ("idiom_fuzz." + std::to_string(getpid()))).string();
    });
    const Checkpoint checkpoint({{"net", net_}});
    checkpoint.write(folder);
    {
      const torch::NoGradGuard guard;
      for (Tensor& p : net_->parameters()) p.mul_(0);
      for (Tensor& buffer : net_->buffers()) buffer.add_(1);
    }
    checkpoint.restore(folder).assert_consumed();
    if (processes) processes->sum(0, "all have restored");
    on_chief(processes, "remove the folder", [&] { return std::to_string(std::filesystem::remove_all(folder)); });
  }

  void report() {
    for (size_t i = 0; i < history_.size(); ++i) note("loss " + std::to_string(i), history_[i]);
    for (const auto& item : net_->named_parameters()) note(item.key(), item.value());
    for (const auto& item : net_->named_buffers()) note(item.key(), item.value());
    for (size_t i = 0; i < ema_.size(); ++i) note("ema " + std::to_string(i), ema_[i]);
    if (anchor_.defined()) note("anchor", anchor_);
    if (target_)
      for (const auto& item : target_->named_parameters()) note("target " + item.key(), item.value());
    if (adversary_)
      for (const auto& item : adversary_->named_parameters()) note("adversary " + item.key(), item.value());
  }

  World& world_;
  const Choice c_;
  Call step_, error_;
  Net net_{nullptr}, target_{nullptr};
  nn::Linear adversary_{nullptr};
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::unique_ptr<torch::optim::SGD> adversary_sgd_;
  std::unique_ptr<Optimizer<torch::optim::SGD>> inside_;
  std::unique_ptr<torch::optim::StepLR> scheduler_;
  std::optional<GradScaler> scaler_;
  std::vector<Tensor> states_, ema_, history_, moves_, slow_;
  Tensor anchor_;
  std::vector<Number> numbers_;
};

std::vector<Number> train(World& world, const Choice& choice) {
  torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
  torch::manual_seed(5);
  return Program(world, choice).run();
}

}  // namespace

std::vector<Number> train_plain(const Choice& choice) {
  World world;
  return train(world, choice);
}

std::vector<Number> train_on_mesh(const Choice& choice) {
  const MeshOptions mesh{.merge = choice.merge};
  const auto devices = devices_of(choice.replicas > 0 ? choice.replicas : kGlobalDevices, choice);
  std::shared_ptr<LocalStrategy> strategy;
  if (choice.processes)
    strategy = std::make_shared<MultiWorkerMirroredStrategy>(
        MultiWorkerMirroredStrategyOptions{.devices = devices, .mesh = mesh});
  else
    strategy = std::make_shared<MirroredStrategy>(MirroredStrategyOptions{.devices = devices, .mesh = mesh});
  if (choice.replicas > 0) {
    Replicas world(strategy);
    return train(world, choice);
  }
  GlobalView world(choice.processes
                       ? dtensor::create_distributed_mesh({{"replica", -1}}, {.local_devices = devices, .mesh = mesh})
                       : strategy->mesh(),
                   strategy->processes());
  return train(world, choice);
}

}  // namespace tutti::fuzz
