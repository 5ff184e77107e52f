#include "program.h"

#include <torch/torch.h>

#include <cstring>
#include <map>

#include "steppers.h"
#include "tests/support/dice.h"
#include "tutti/coordinator/cluster_coordinator.h"
#include "tutti/core/str.h"
#include "tutti/distribute/current_worker.h"
#include "tutti/distribute/embedding_lookup.h"

namespace tutti::fuzz {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using torch::Tensor;

constexpr at::ScalarType kDtypes[] = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf};
constexpr const char* kSignature = "\nworker ";
constexpr int64_t kRows = 40, kFeatures = 3, kInputs = 5;

int partitioner_of_plan = 0;

std::vector<int64_t> cut(c10::IntArrayRef sizes, at::ScalarType dtype) {
  switch (partitioner_of_plan) {
    case 1: return FixedShardsPartitioner(2)(sizes, dtype);
    case 2: return FixedShardsPartitioner(3)(sizes, dtype);
    case 3: return MinSizePartitioner({.min_shard_bytes = 16, .max_shards = 5})(sizes, dtype);
    case 4: return MaxSizePartitioner({.max_shard_bytes = 40})(sizes, dtype);
    default: return std::vector<int64_t>(sizes.size(), 1);
  }
}

Tensor numbers(at::IntArrayRef sizes, uint64_t start, at::ScalarType dtype) {
  return torch::arange(c10::multiply_integers(sizes))
      .mul(7)
      .add(static_cast<int64_t>(start))
      .remainder(31)
      .sub(15)
      .to(torch::kDouble)
      .div(32)
      .reshape(sizes)
      .to(dtype);
}

struct Net : nn::Module {
  Tensor weight, bias, gain, cube, table, words, phase, mean, count, flags, average, target;
  nn::BatchNorm1d norm{nullptr};

  explicit Net(at::ScalarType dtype) {
    weight = register_parameter("weight", numbers({kInputs, kFeatures}, 3, dtype));
    bias = register_parameter("bias", numbers({kFeatures}, 5, dtype));
    gain = register_parameter("gain", numbers({}, 20, dtype));
    cube = register_parameter("cube", numbers({2, 3, 2}, 11, dtype));
    table = register_parameter("table", numbers({kRows, kFeatures}, 13, dtype));
    words = register_parameter("words", numbers({kRows, 2}, 17, dtype));
    phase = register_parameter("phase", torch::complex(numbers({4}, 1, at::kFloat), numbers({4}, 2, at::kFloat)));
    mean = register_buffer("mean", torch::zeros({kFeatures}, dtype));
    count = register_buffer("count", torch::zeros({}, at::kLong));
    flags = register_buffer("flags", torch::zeros({3}, at::kBool));
    average = register_buffer("average", torch::zeros({kInputs, kFeatures}, dtype));
    target = register_buffer("target", torch::zeros({kInputs, kFeatures}, dtype));
    norm = register_module("norm", nn::BatchNorm1d(kFeatures));
  }
};

class Program {
 public:
  Program(const Plan& plan, const Place& place)
      : plan_(plan), place_(place), strategy_(place.strategy), dtype_(kDtypes[plan.dtype]) {
    partitioner_of_plan = plan.partitioner;
    build([&] {
      net_ = std::make_shared<Net>(dtype_);
      make_optimizers();
    });
    if (strategy_) coordinator_ = std::make_unique<ClusterCoordinator>(*strategy_);
    for (const Tensor& seen : {net_->weight, net_->cube, net_->average}) views_.push_back(seen.detach());
    views_.push_back(net_->weight.detach()[1]);
    views_.push_back(net_->cube.detach().transpose(0, 2));
    for (size_t i = 0; i < plan.functions.size(); ++i) {
      Call call = [this, i](int64_t argument) { return run_function(plan_.functions[i], argument); };
      if (strategy_ && strategy_->num_workers() > 1)
        call = [call](int64_t argument) { return signed_call(call, argument); };
      if (strategy_) served_.push_back(coordinator_->function(str("function_", i), call));
      calls_.push_back(std::move(call));
    }
  }

  std::vector<Number> run() {
    size_t next = 0;
    while (next < plan_.script.size()) {
      const size_t first = next;
      while (next < plan_.script.size() && plan_.script[next].kind != Act::end_run &&
             plan_.script[next].kind != Act::fail_run)
        ++next;
      const bool ends = next < plan_.script.size();
      const bool fails = ends && plan_.script[next].kind == Act::fail_run;
      run_once({plan_.script.begin() + static_cast<int64_t>(first), plan_.script.begin() + static_cast<int64_t>(next)},
               fails);
      if (ends) between_runs(plan_.script[next++].number);
    }
    run_once({{Act::look, 0}}, false);
    return std::move(numbers_);
  }

 private:
  using Call = std::function<Tensor(int64_t)>;

  bool is_chief() const { return !strategy_ || strategy_->is_coordinator(); }
  void build(const std::function<void()>& f) { strategy_ ? strategy_->build(f) : f(); }

  void make_optimizers() {
    const std::vector<Tensor> all{net_->weight, net_->bias,         net_->gain,
                                  net_->cube,   net_->norm->weight, net_->norm->bias};
    for (const OptimizerPlan& of : plan_.optimizers) {
      Dice dice(of.number);
      std::vector<Tensor> parameters;
      for (const Tensor& parameter : all)
        if (dice.chance(70)) parameters.push_back(parameter);
      if (!plan_.sparse || takes_sparse(of, /*as_dense=*/plan_.rows_alone))
        parameters.insert(parameters.end(), {net_->table, net_->words});
      if (takes_complex(of)) parameters.push_back(net_->phase);
      if (parameters.empty()) parameters.push_back(net_->weight);
      trained_.push_back(parameters);
      steppers_.push_back(make_stepper(of, parameters));
    }
  }

  // --- a worker's function

  Tensor run_function(const Function& function, int64_t argument) {
    const auto body = [&] { return make_moves(function, argument); };
    if (!strategy_) return place_.in_cluster && function.may_fail() ? kept_only_where_it_ends(body) : body();
    const bool in_replicas = function.in_replicas || plan_.rows_alone;  // gradients of such rows are theirs alone
    if (!in_replicas) return body();
    return strategy_->reduce(ReduceOp::sum, strategy_->run(body));
  }

  // Tells which of several workers made the call, before its value or behind its error's first line.
  static Tensor signed_call(const Call& call, int64_t argument) {
    const int worker = current_worker_index();
    try {
      return torch::cat({torch::full({1}, worker, at::kDouble), call(argument)});
    } catch (const std::exception& error) {
      const std::string text = error.what();
      throw Error(ErrorCode::data_loss, str(text.substr(0, text.find('\n')), kSignature, worker));
    }
  }

  Tensor kept_only_where_it_ends(const std::function<Tensor()>& body) {
    std::vector<Tensor> before;
    for (const Tensor& buffer : net_->buffers()) before.push_back(buffer.clone());
    try {
      return body();
    } catch (...) {
      const torch::NoGradGuard guard;
      const auto buffers = net_->buffers();
      for (size_t i = 0; i < buffers.size(); ++i) Tensor(buffers[i]).copy_(before[i]);
      throw;
    }
  }

  Tensor make_moves(const Function& function, int64_t argument) {
    struct Thaw {
      ~Thaw() {
        if (frozen.defined()) frozen.requires_grad_(true);
      }
      Tensor frozen;
    } thaw;
    std::vector<Tensor> results{torch::zeros({}, at::kDouble)};
    for (const auto& move : function.moves) {
      Dice dice(move.number + static_cast<uint64_t>(argument));
      const auto give = [&](const Tensor& value) { results.push_back(value.detach().sum().to(at::kDouble)); };
      if (move.kind == Move::freeze) {
        if (thaw.frozen.defined() || !net_->bias.requires_grad()) continue;
        thaw.frozen = net_->bias;
        thaw.frozen.requires_grad_(false);
      } else {
        make_move(move.kind, dice, give);
      }
    }
    return torch::stack(results);
  }

  using Give = std::function<void(const Tensor&)>;

  void make_move(Move kind, Dice& dice, const Give& give) {
    const auto which = static_cast<size_t>(dice.below(static_cast<int64_t>(steppers_.size())));
    const Stepper& stepper = *steppers_[which];
    switch (kind) {
      case Move::train:
        stepper.zero_grad();
        give(backward(dice));
        return stepper.step();
      case Move::zero: return stepper.zero_grad();
      case Move::backward: return give(backward(dice));
      case Move::step: return stepper.step();
      case Move::clip: return clip(dice);
      case Move::edit: return edit(dice);
      case Move::penalty: return penalty(give);
      case Move::held: return trains_weight(which) && stepper.tells_graphs() ? hold(stepper, give) : void();
      case Move::read: return read(dice, give);
      case Move::look_up: {
        const torch::NoGradGuard guard;
        return give(looked_up(dice));
      }
      case Move::views:
        for (const Tensor& view : views_) give(view);
        return;
      case Move::count: return write_buffer(dice);
      case Move::average: return follow(dice);
      case Move::fail: throw Error(ErrorCode::data_loss, "a bad record");
      default: return;
    }
  }

  Tensor backward(Dice& dice) {
    const Tensor total = loss(dice);
    if (total.requires_grad()) total.backward();
    return total;
  }

  Tensor loss(Dice& dice) {
    Tensor total;
    for (int64_t i = dice.between(1, 3); i > 0; --i) {
      const Tensor term = loss_term(dice).to(at::kFloat);
      total = total.defined() ? total + term : term;
    }
    return total;
  }

  Tensor loss_term(Dice& dice) {
    const Tensor x = numbers({4, kInputs}, static_cast<uint64_t>(dice.below(31)), dtype_);
    const auto hidden = [&] { return torch::tanh(torch::matmul(x, net_->weight) + net_->bias) * net_->gain.exp(); };
    const bool whole_tables = !plan_.rows_alone;
    switch (dice.below(10)) {
      case 0:
      case 1: return hidden().square().sum();
      case 2: return looked_up(dice).square().sum();
      case 3: return (hidden() + looked_up(dice).sum()).square().sum();
      case 4: return (net_->weight - net_->target).square().sum();
      case 5: return net_->norm(hidden().to(at::kFloat)).pow(3).sum() + net_->norm->bias.square().sum();
      case 6: return torch::real(net_->phase * net_->phase.conj() * torch::tensor({1.F, 2.F, -1.F, 0.5F})).sum();
      case 7: return net_->cube[1].square().sum() + net_->cube.slice(1, 0, 2).transpose(0, 2).sum();
      case 8: return whole_tables ? net_->table.slice(0, 2, 9, 3).square().sum() : net_->gain * 2;
      default: return net_->mean.sum() * net_->gain + (net_->cube * net_->bias.unsqueeze(1)).square().sum();
    }
  }

  Tensor looked_up(Dice& dice) {
    std::vector<int64_t> listed;
    for (int64_t i = dice.between(1, 5); i > 0; --i) listed.push_back(dice.below(kRows));
    const Tensor ids = torch::tensor(listed, at::kLong);
    const Tensor& table = dice.chance(50) ? net_->table : net_->words;
    switch (dice.below(4)) {
      case 0: return table.index_select(0, ids);
      case 1:
        return F::embedding_bag(
            ids, table,
            F::EmbeddingBagFuncOptions().offsets(torch::tensor({int64_t{0}})).sparse(plan_.sparse).mode(torch::kSum));
      case 2: return F::embedding(ids.unsqueeze(0), table, F::EmbeddingFuncOptions().sparse(plan_.sparse)).mean(1);
      default: return F::embedding(ids, table, F::EmbeddingFuncOptions().sparse(plan_.sparse));
    }
  }

  bool is_table(const Tensor& parameter) const {
    return parameter.is_same(net_->table) || parameter.is_same(net_->words);
  }
  // Those of an optimizer that have dense gradients here and there: in global view none says that it is sparse.
  std::vector<Tensor> with_gradients(Dice& dice) const {
    std::vector<Tensor> parameters;
    for (const Tensor& parameter : trained_[static_cast<size_t>(dice.below(static_cast<int64_t>(trained_.size())))])
      if (!(is_table(parameter) && (plan_.rows_alone || plan_.sparse)) && !parameter.is_complex() &&
          parameter.grad().defined())
        parameters.push_back(parameter);
    return parameters;
  }
  void clip(Dice& dice) const {
    const auto parameters = with_gradients(dice);
    if (parameters.empty()) return;
    if (dice.chance(50))
      nn::utils::clip_grad_norm_(parameters, 0.5);
    else
      nn::utils::clip_grad_value_(parameters, 0.1);
  }
  void edit(Dice& dice) const {
    const torch::NoGradGuard guard;
    for (const Tensor& parameter : with_gradients(dice)) switch (dice.below(4)) {
        case 0: parameter.mutable_grad().mul_(0.5); break;
        case 1: parameter.mutable_grad() = parameter.grad() + 0.125; break;
        case 2: parameter.mutable_grad().zero_(); break;
        default: parameter.mutable_grad().reset();
      }
  }

  void penalty(const Give& give) {
    const Tensor x = numbers({4, kInputs}, 2, dtype_).requires_grad_();
    const Tensor out = torch::tanh(torch::matmul(x, net_->weight)).sum();
    if (!net_->weight.requires_grad()) return;
    const Tensor gradient = torch::autograd::grad({out}, {x}, {}, true, /*create_graph=*/true)[0];
    const Tensor total = gradient.square().sum();
    total.backward();
    give(total);
  }

  bool trains_weight(size_t optimizer) const {
    return std::ranges::any_of(trained_[optimizer], [&](const Tensor& each) { return each.is_same(net_->weight); });
  }
  // A graph that a step has made old throws, as LibTorch's do.
  void hold(const Stepper& stepper, const Give& give) {
    const Tensor old = net_->weight.square().sum(), other = net_->bias.sum() + net_->weight.sum();
    stepper.zero_grad();
    if (other.requires_grad()) other.backward();
    stepper.step();
    bool is_refused = false;
    try {
      if (old.requires_grad()) old.backward();
    } catch (const c10::Error&) {
      is_refused = true;
    }
    give(torch::full({}, is_refused ? 1 : 0));
  }

  void read(Dice& dice, const Give& give) {
    const torch::NoGradGuard guard;
    switch (dice.below(6)) {
      case 0: return give(net_->weight.t().to(at::kDouble).norm());
      case 1: return give(net_->gain + net_->count);
      case 2: return give(plan_.rows_alone ? net_->gain : net_->table.abs().to(at::kDouble));
      case 3: return give(torch::view_as_real(net_->phase).abs());
      case 4: return give(net_->average * 2 + net_->mean);
      default: return give(torch::cat({net_->cube.reshape({-1}), net_->bias}).to(at::kDouble).cumsum(0));
    }
  }

  void write_buffer(Dice& dice) {
    const torch::NoGradGuard guard;
    switch (dice.below(8)) {
      case 0: net_->count.add_(1); break;
      case 1: net_->count.mul_(3).add_(2); break;
      case 2: net_->flags[dice.below(3)].logical_not_(); break;
      case 3: net_->mean.lerp_(numbers({kFeatures}, 9, dtype_), 0.25); break;
      case 4: net_->mean.copy_(net_->bias); break;
      case 5: net_->mean.slice(0, 1).mul_(0.5); break;
      case 6: net_->average.t().add_(0.125); break;
      default: net_->target.zero_();
    }
  }
  void follow(Dice& dice) {
    const torch::NoGradGuard guard;
    switch (dice.below(3)) {
      case 0: net_->average.lerp_(net_->weight, 0.25); break;
      case 1: net_->target.copy_(net_->weight); break;
      default: net_->average.data().mul_(0.75).add_(net_->weight.data(), 0.25);
    }
  }

  // --- the chief

  void run_once(const std::vector<Step<Act>>& acts, bool fails) {
    const auto drive = [&] {
      for (const auto& act : acts) try_act(act);
      if (fails) throw Error(ErrorCode::data_loss, "no more");
    };
    try {
      strategy_ ? coordinator_->run(drive) : drive();
    } catch (const Error& error) {
      const bool is_planned = error.code() == (is_chief() ? ErrorCode::data_loss : ErrorCode::cancelled);
      if (!fails || !is_planned) throw;
    }
  }

  void between_runs(uint64_t number) {
    Dice dice(number);
    if (dice.chance(30)) net_->cube.requires_grad_(!net_->cube.requires_grad());  // in all tasks
    if (!is_chief()) return;
    for (int64_t i = dice.below(3); i > 0; --i) {
      const Act act = dice.pick({Act::write, Act::rate, Act::train, Act::restore, Act::look, Act::save});
      try_act({act, static_cast<uint64_t>(dice.below(1'000'000))});
    }
  }

  // An error is a result, too.
  void try_act(const Step<Act>& act) {
    try {
      make_act(act);
    } catch (const std::exception& error) {
      std::string text = error.what();
      if (const size_t at = text.find(place_.folder.string()); at != std::string::npos)
        text.erase(at, place_.folder.string().size());
      numbers_.push_back({str("throws ", text.substr(0, text.find('\n'))), {}});
    }
  }
  void make_act(const Step<Act>& act) {
    Dice dice(act.number);
    switch (act.kind) {
      case Act::call: return call(dice);
      case Act::burst: return burst(dice);
      case Act::look: return look();
      case Act::write: return write(dice);
      case Act::rate:
        return steppers_[static_cast<size_t>(dice.below(static_cast<int64_t>(steppers_.size())))]->set_rate(
            dice.pick({0.01, 0.02, 0.05}));
      case Act::train: return train_here(dice);
      case Act::save:
        checkpoint().write(place_.folder / "saved");
        has_saved_ = true;
        return;
      case Act::restore:
        if (has_saved_) checkpoint().restore(place_.folder / "saved").assert_consumed();
        return;
      default: return;
    }
  }

  Checkpoint checkpoint() const {
    std::vector<checkpoint::NamedTrackable> all{{"net", *net_}};
    for (size_t i = 0; i < steppers_.size(); ++i) all.push_back(steppers_[i]->in_checkpoint(str("optimizer_", i)));
    return Checkpoint(all);
  }

  void note(const std::string& name, const Tensor& value) {
    const Tensor real = value.is_complex() ? torch::view_as_real(value.detach()) : value.detach();
    const Tensor plain = real.to(at::kDouble).reshape({-1});
    Number number{name, {}};
    for (int64_t i = 0; i < plain.numel(); ++i) number.values.push_back(plain[i].item<double>());
    numbers_.push_back(std::move(number));
  }

  void call(Dice& dice) {
    const auto i = static_cast<size_t>(dice.below(static_cast<int64_t>(calls_.size())));
    const int64_t argument = dice.below(3);
    if (!strategy_) return note(name_of(i, argument), call_alone(i, argument));
    const auto value = coordinator_->schedule(served_[i], argument);
    try {
      coordinator_->join();
    } catch (const std::exception&) {  // which fetch throws, too
    }
    note(name_of(i, argument), fetched(value));
  }
  static std::string name_of(size_t function, int64_t argument) { return str("function ", function, " of ", argument); }

  Tensor fetched(const RemoteValue<Tensor>& value) {
    const bool is_signed = strategy_->num_workers() > 1;
    int worker = 0;
    try {
      Tensor result = value.fetch();
      if (is_signed) {
        worker = result[0].item<int>();
        result = result.slice(0, 1);
      }
      place_.workers->push_back(worker);
      return result;
    } catch (const std::exception& error) {
      const std::string text = error.what();
      if (const size_t at = text.find(kSignature); at != std::string::npos)
        worker = std::stoi(text.substr(at + std::strlen(kSignature)));
      place_.workers->push_back(worker);
      throw;
    }
  }

  // Each worker has gradients of its own.
  Tensor call_alone(size_t function, int64_t argument) {
    const size_t n = num_calls_++;
    auto& own = gradients_[n < place_.workers->size() ? (*place_.workers)[n] : 0];  // it may have ended early
    const auto exchange = [&](const std::vector<Tensor>& parameters) {
      own.resize(parameters.size());
      for (size_t i = 0; i < parameters.size(); ++i) std::swap(Tensor(parameters[i]).mutable_grad(), own[i]);
    };
    struct Exchanged {
      ~Exchanged() { exchange(); }
      std::function<void()> exchange;
    };
    const auto parameters = net_->parameters();
    exchange(parameters);
    const Exchanged back{[&] { exchange(parameters); }};
    return calls_[function](argument);
  }

  void burst(Dice& dice) {
    std::vector<std::pair<size_t, int64_t>> each;
    for (int64_t n = dice.between(2, 6); n > 0; --n) {
      const auto i = static_cast<size_t>(dice.below(static_cast<int64_t>(calls_.size())));
      const int64_t argument = dice.below(3);
      if (!plan_.functions[i].may_fail()) each.emplace_back(i, argument);  // how many others end is open
    }
    if (!strategy_) {
      for (const auto& [i, argument] : each) note(name_of(i, argument), call_alone(i, argument));
      return;
    }
    const bool in_turns = strategy_->num_workers() > 1 && std::ranges::any_of(each, [&](const auto& one) {
                            return plan_.functions[one.first].writes();
                          });
    std::vector<RemoteValue<Tensor>> values;
    for (const auto& [i, argument] : each) {
      values.push_back(coordinator_->schedule(served_[i], argument));
      if (in_turns) coordinator_->join();
    }
    coordinator_->join();
    for (size_t k = 0; k < each.size(); ++k) note(name_of(each[k].first, each[k].second), fetched(values[k]));
  }

  void look() {
    for (const auto& item : net_->named_parameters()) note(item.key(), item.value());
    for (const auto& item : net_->named_buffers()) note(item.key(), item.value());
  }

  void write(Dice& dice) {
    const torch::NoGradGuard guard;
    auto parameters = net_->parameters();
    const auto buffers = net_->buffers();
    Tensor& one = parameters[static_cast<size_t>(dice.below(static_cast<int64_t>(parameters.size())))];
    switch (dice.below(9)) {
      case 0: one.mul_(0.5); break;
      case 1: one.copy_(one.flip(one.dim() > 0 ? std::vector<int64_t>{0} : std::vector<int64_t>{})); break;
      case 2: net_->weight.data().clamp_(-0.25, 0.25); break;
      case 3: net_->table.set_data(net_->table.data().mul(0.5)); break;
      case 4: net_->cube.select(2, 1).fill_(0.5); break;
      case 5: scatter(dice); break;
      case 6: net_->weight.index_put_({torch::tensor({1, 3})}, torch::ones({}, dtype_)); break;
      case 7: Tensor(buffers[static_cast<size_t>(dice.below(static_cast<int64_t>(buffers.size())))]).zero_(); break;
      default:
        for (Tensor& parameter : parameters) parameter.add_(0.0625);
    }
  }

  void scatter(Dice& dice) {
    const auto table = strategy_ ? strategy_->shards(net_->table) : ShardedVariable::cut(net_->table, {kRows});
    const Tensor ids = torch::tensor({3, 39, 20}), rows = numbers({3, kFeatures}, 4, dtype_);
    switch (dice.below(4)) {
      case 0: table.scatter_add(ids, rows); break;
      case 1: table.scatter_update(ids, rows); break;
      case 2: table.assign(table.value() * 0.5); break;
      default: note("looked up", embedding_lookup(table, ids));
    }
  }

  // Its gradients are not those of workers.
  void train_here(Dice& dice) {
    const auto parameters = net_->parameters();
    std::vector<Tensor> workers;
    for (const Tensor& parameter : parameters) {
      workers.push_back(parameter.grad());
      parameter.mutable_grad().reset();
    }
    const Stepper& stepper = *steppers_[static_cast<size_t>(dice.below(static_cast<int64_t>(steppers_.size())))];
    note("loss here", backward(dice));
    stepper.step();
    const bool are_workers_here = !strategy_ || !place_.in_cluster;
    for (size_t i = 0; i < parameters.size(); ++i)
      parameters[i].mutable_grad() = are_workers_here ? workers[i] : Tensor();
  }

  const Plan plan_;
  const Place place_;
  ParameterServerStrategy* const strategy_;
  const at::ScalarType dtype_;
  std::shared_ptr<Net> net_;
  std::vector<std::vector<Tensor>> trained_;  // of each optimizer
  std::vector<std::unique_ptr<Stepper>> steppers_;
  std::vector<Tensor> views_;
  std::unique_ptr<ClusterCoordinator> coordinator_;
  std::vector<Call> calls_;
  std::map<int, std::vector<Tensor>> gradients_;  // by worker, where LibTorch alone calls
  size_t num_calls_ = 0;
  std::vector<WorkerFunction<Tensor(int64_t)>> served_;
  std::vector<Number> numbers_;
  bool has_saved_ = false;
};

}  // namespace

Partitioner partitioner_of_plans() { return Partitioner(cut); }

std::vector<Number> run_program(const Plan& plan, const Place& place) { return Program(plan, place).run(); }

}  // namespace tutti::fuzz
