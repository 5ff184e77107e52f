#include "tutti/function/traces.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/device/gpu.h"
#include "tutti/device/gpu_graph.h"
#include "tutti/distribute/backward_here.h"
#include "tutti/function/call_node.h"
#include "tutti/function/compare.h"
#include "tutti/function/function_gradient.h"
#include "tutti/function/graph_node.h"
#include "tutti/function/inner_graph.h"
#include "tutti/function/memory_watch.h"
#include "tutti/function/recordable_calls.h"
#include "tutti/function/recorder.h"
#include "tutti/function/replay.h"
#include "tutti/function/surroundings.h"
#include "tutti/tensor/gradient_reads.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

std::atomic<bool> g_eagerly{false}, g_gpu_graphs{false};

constexpr int kRecordingsToSettle = 3;
constexpr int kMisfits = 4;       // recordings that were made for nothing
constexpr size_t kMostAside = 3;  // a function that adds to gradients has two recordings: it finds some, or none
constexpr const char* kOtherSurroundings =
    ": what it uses from outside, or how gradients stand when it begins, is other at each call";

void check_gradients(const FunctionOptions& options, at::ArrayRef<Tensor> arguments) {
  for (const Tensor& tensor : arguments)
    if (tensor.defined() && tensor.requires_grad() && (is_mesh_tensor(tensor) || options.if_unrecordable))
      throw Error(ErrorCode::unimplemented,
                  str(options.name, ": an argument of shape ", str_list(tensor.sizes()), ", ",
                      is_mesh_tensor(tensor) ? "a mesh tensor, requires a gradient"
                                             : "of a function that may run as it is, requires a gradient",
                      ", which cannot go through a recorded function yet; compute the gradient inside of it, and pass "
                      "detach()"));
}

void check_library(const std::string& name) {
  if (!memory_can_be_watched())
    throw Error(ErrorCode::unimplemented,
                str(name,
                    ": functions are recorded with LibTorch 2.13 or later; run_functions_eagerly(true) lets them "
                    "run as plain functions"));
}

void check_place(const std::string& name) {
  if (ThreadView::current().scope)
    throw Error(ErrorCode::unimplemented,
                str(name,
                    ": called in a scope, where tensors are made on its mesh, which cannot be recorded; call it "
                    "outside"));
}

// Behind the arguments.
void add_elements(TakenApart& arguments, const CallElements& elements) {
  for (const CallElements::Element& element : elements.elements()) {
    arguments.plain.append(element.tensors.plain.begin(), element.tensors.plain.end());
    arguments.values.append(element.tensors.values.begin(), element.tensors.values.end());
  }
}

std::vector<Signature::Taken> signatures_of(const CallElements& elements) {
  std::vector<Signature::Taken> signatures;
  for (const CallElements::Element& element : elements.elements())
    signatures.push_back({element.iterator, Signature::Parts::of(element.value.parts, element.tensors)});
  return signatures;
}

// A mesh tensor whose shape is changed in place has others from then on.
void refuse_other_components(const std::string& name, at::ArrayRef<Tensor> arguments, at::ArrayRef<Tensor> plain) {
  auto next = plain.begin();
  for (const Tensor& argument : arguments) {
    if (!is_mesh_tensor(argument)) {
      ++next;
      continue;
    }
    for (const Tensor& component : mesh_impl(argument).components())
      if (next == plain.end() || !component.is_same(*next++))
        throw Error(ErrorCode::failed_precondition,
                    str(name,
                        ": the function changes the shape of a mesh tensor that is its argument, which a replay "
                        "would not; work on a view of it: t(), unsqueeze(), …"));
  }
}

// Whether both recordings began with gradients at the same variables, and those that are used lay alike, as far as that
// is known. A first one that found a gradient does not know it for one.
bool found_same_gradients(const Program& first, const Program& second) {
  return std::all_of(second.leaves.begin(), second.leaves.end(), [&](const Program::Leaf& leaf) {
    const auto same = std::find_if(first.leaves.begin(), first.leaves.end(),
                                   [&](const Program::Leaf& other) { return other.tensor.is_same(leaf.tensor); });
    if (same == first.leaves.end()) return true;
    if (same->had_gradient != leaf.had_gradient) return false;
    return same->is_known ? same->entry_geometries == leaf.entry_geometries : !same->had_gradient;
  });
}

// A function that did the same with a gradient that it did not use lets gradients be, or puts its own there.
void learn_of_gradients(const Program& previous, Program& program) {
  for (Program::Leaf& leaf : program.leaves)
    leaf.needs_none &= std::none_of(previous.leaves.begin(), previous.leaves.end(), [&](const Program::Leaf& before) {
      return before.tensor.is_same(leaf.tensor) && before.is_known && !before.needs_none &&
             before.entry_buffers.empty() && before.changes == leaf.changes &&
             before.exit_values.empty() == leaf.exit_values.empty();
    });
}

void bump_version(const Tensor& tensor) {
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

}  // namespace

void run_functions_eagerly(bool eagerly) { g_eagerly = eagerly; }
bool functions_run_eagerly() { return g_eagerly; }

void use_gpu_graphs(bool use) { g_gpu_graphs = use; }
bool gpu_graphs_are_used() { return g_gpu_graphs; }

Traces::Traces(FunctionOptions options) : options_(std::move(options)) {
  if (!options_.memory) options_.memory = std::make_shared<ReplayMemory>();
  if (options_.gpu_graphs && num_gpus() > 0) GpuGraph::require();
}

std::unique_ptr<ProgramRunner> Traces::make_runner(const std::shared_ptr<const Program>& program) const {
  if (program->compiler) return program->compiler->compile(program);
  return std::make_unique<Replay>(program, options_.memory, options_.gpu_graphs);
}

Signature Traces::signature_of(std::type_index types, const FlatArguments& arguments, const TakenApart& tensors) const {
  return Signature::of(types, arguments, tensors, options_.depends_on ? options_.depends_on() : 0);
}

Traces::Trace* Traces::find(const Signature& signature) const {
  for (const auto& trace : traces_)
    if (trace->signature == signature) return trace.get();
  return nullptr;
}

// Which iterators a call takes elements of, as one like it did; nothing where none was recorded yet.
std::optional<std::vector<int>> Traces::iterators_taken(const Signature& signature) const {
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(traces_.begin(), traces_.end(), [&](const auto& trace) {
    return trace->signature.elements && trace->signature.is_of_call_like(signature);
  });
  if (known == traces_.end()) return {};
  std::vector<int> iterators;
  for (const Signature::Taken& taken : *(*known)->signature.elements) iterators.push_back(taken.iterator);
  return iterators;
}

Traces::Trace& Traces::find_or_add(Signature signature) {
  const std::lock_guard lock(mutex_);
  if (Trace* found = find(signature)) return *found;
  if (std::ssize(traces_) >= options_.max_traces)
    throw Error(ErrorCode::resource_exhausted,
                str(options_.name, ": ", signature.to_string(), " would be recording ", traces_.size() + 1,
                    ", each for other arguments. Numbers that vary belong into tensors, and batches should be of few "
                    "sizes (batch() with drop_remainder); FunctionOptions::max_traces allows more"));
  return *traces_.emplace_back(std::make_unique<Trace>(Trace{std::move(signature)}));
}

bool Traces::has_given_up(const Trace& trace) const {
  const std::lock_guard lock(mutex_);
  return trace.gave_up;
}

// Requires: mutex_ is held.
bool Traces::gives_up_after_misfit(Trace& trace) {
  return trace.gave_up = ++trace.num_misfits > kMisfits && options_.if_unrecordable;
}

const std::shared_ptr<const Program>& Traces::Trace::latest_program() const {
  return now.program || set_aside.empty() ? now.program : set_aside.back().program;
}

void Traces::Trace::put_aside(Recording recording) {
  if (set_aside.size() == kMostAside) set_aside.erase(set_aside.begin());
  set_aside.push_back(std::move(recording));
}

// Goes on with a recording that found gradients, and all else, as they are now, or begins one. Returns whether it is
// another one.
bool Traces::Trace::turn_to_gradients() {
  if (!now.program || gradients_fit(*now.program)) return false;
  std::erase_if(set_aside, [](const Recording& recording) { return !memory_fits(*recording.program); });
  const auto other = std::ranges::find_if(set_aside, [](const Recording& recording) {
    return recording.program->compiler ? gradients_fit(*recording.program) : surroundings_fit(*recording.program);
  });
  if (other != set_aside.end())
    std::swap(now, *other);
  else if (now.ready)
    put_aside(std::exchange(now, {}));
  else
    return false;  // it is being recorded, and may reset gradients
  return true;
}

// Each thread that calls at the same time has one.
std::unique_ptr<ProgramRunner> Traces::take_fitting(Recording& recording) const {
  if (!recording.ready) return nullptr;
  std::unique_ptr<ProgramRunner> replay;
  if (recording.free.empty()) {
    replay = make_runner(recording.program);
  } else {
    replay = std::move(recording.free.back());
    recording.free.pop_back();
  }
  if (replay->fits() && (!recording.graph || recording.graph.inner->fits())) return replay;
  recording.free.push_back(std::move(replay));
  return nullptr;
}

std::unique_ptr<ProgramRunner> Traces::take_replay(Trace& trace, Outcome& outcome, LaidOutValues& results,
                                                   FunctionGraph& graph) {
  const std::lock_guard lock(mutex_);
  auto replay = take_fitting(trace.now);
  if (!replay && trace.turn_to_gradients()) replay = take_fitting(trace.now);
  if (replay) {
    outcome.form = trace.now.form;
    results = trace.now.results;
    graph = trace.now.graph;
    trace.num_misfits = 0;
    return replay;
  }
  if (!trace.now.ready) return nullptr;
  trace.now = {};  // something outside was replaced
  trace.set_aside.clear();
  if (gives_up_after_misfit(trace)) throw Error(ErrorCode::failed_precondition, options_.name + kOtherSurroundings);
  return nullptr;
}

// Unless the function was recorded anew meanwhile.
void Traces::give_back(Trace& trace, std::unique_ptr<ProgramRunner> replay) {
  const std::lock_guard lock(mutex_);
  const auto take = [&](Recording& recording) {
    if (replay && recording.ready && replay->program() == recording.program)
      recording.free.push_back(std::move(replay));
  };
  take(trace.now);
  std::for_each(trace.set_aside.begin(), trace.set_aside.end(), take);
}

// A result whose graph ended in the function says so to whoever asks for its gradient.
void Traces::end_graph(Tensor& result) const {
  if (!at::GradMode::is_enabled() || result.requires_grad()) return;
  const auto node = make_graph_node<torch::autograd::Error>(
      str(options_.name,
          ": the gradient of the result of a recorded function with mesh tensors, or with run, is asked for outside of "
          "the function; call backward() or autograd::grad() inside of it"));
  torch::autograd::set_history(result, node);
}

Tensors Traces::finish_results(const Program& program, const FunctionGraph& graph, at::ArrayRef<Tensor> arguments,
                               Tensors plain, at::ArrayRef<LaidOut> layouts) const {
  if (graph) return connect(graph, program, arguments, std::move(plain));
  for (size_t i = 0; i < plain.size(); ++i)
    if (program.results[i].requires_grad) end_graph(plain[i]);
  Tensors results = put_together(std::move(plain), layouts);
  for (size_t i = 0; i < results.size(); ++i)
    if (layouts[i].requires_grad) end_graph(results[i]);
  return results;
}

// A replay could not tell the replicas of the tensor.
void Traces::refuse_written_meshes(const Program& program, at::ArrayRef<LaidOut> layouts) const {
  std::vector<bool> is_mesh;  // of plain arguments
  for (const LaidOut& layout : layouts)
    is_mesh.insert(is_mesh.end(), layout.spec ? static_cast<size_t>(layout.spec->num_components) : 1, layout.spec);
  for (const Program::Buffer& buffer : program.buffers)
    if (buffer.kind == Program::Buffer::Kind::argument && buffer.written && is_mesh[static_cast<size_t>(buffer.index)])
      throw Error(ErrorCode::unimplemented,
                  str(options_.name,
                      ": the function writes to a mesh tensor that is its argument, which cannot be "
                      "recorded; capture the variable, or return the new value"));
}

// Two recordings in a row must be one program. The first may make what later ones find: an optimizer's state,
// gradients.
void Traces::accept(Trace& trace, Program program, Recording made, const std::vector<std::string>& kept_outside,
                    bool previous_fitted) {
  if (trace.now.program) learn_of_gradients(*trace.now.program, program);
  const bool leaves_shares = program.leaves_shares;
  made.program = std::make_shared<const Program>(std::move(program));
  made.made_state = !kept_outside.empty() || leaves_shares;
  made.num_recordings = trace.now.num_recordings + 1;
  Recording previous = std::exchange(trace.now, std::move(made));
  if (!previous.program) return;
  const auto fail = [&](const std::string& text) {
    trace.now = {};
    throw Error(ErrorCode::failed_precondition, options_.name + ": " + text);
  };
  const auto may_begin_anew = [&] {
    if (gives_up_after_misfit(trace)) throw Error(ErrorCode::failed_precondition, options_.name + kOtherSurroundings);
    trace.now.num_recordings = 1;
    return trace.num_misfits <= kMisfits;
  };
  const bool is_written_again = leaves_shares && !previous.program->leaves_shares;  // in global view, in between
  if (is_written_again ? may_begin_anew() : leaves_shares && trace.now.num_recordings < kRecordingsToSettle) return;
  if (leaves_shares)
    fail(
        "a replica writes in place to a value that all share, at each call anew, which cannot be recorded: global view "
        "writes it too. Make it a variable that is on_read, or call run_functions_eagerly(true)");
  const auto differs = difference(*previous.program, *trace.now.program);
  if (differs && previous.made_state && trace.now.num_recordings < kRecordingsToSettle) return;
  if (differs && previous.found_unreduced) {
    trace.now.num_recordings = 1;
    return;
  }
  if (differs && !found_same_gradients(*previous.program, *trace.now.program)) {
    trace.put_aside(std::move(previous));
    trace.now.num_recordings = 1;
    return;
  }
  // It is no second recording, but a first one of what is there now.
  if (differs && !previous_fitted && may_begin_anew()) return;
  if (differs)
    fail(str("two recordings for ", trace.signature.to_string(), " differ: ", *differs,
             ". A replay would go on with the one value. Pass what changes as an argument (a tensor, or a number that "
             "means another recording), or tell it by FunctionOptions::depends_on"));
  if (!kept_outside.empty())
    fail(str("something outside keeps a tensor that the function made (", kept_outside[0],
             "), which a replay would not renew. Return it, or write it into a tensor that is there with copy_()"));
  if (trace.now.program->compiler) try {  // what its devices cannot do is told now
      trace.now.free.push_back(make_runner(trace.now.program));
    } catch (...) {
      trace.now = {};
      throw;
    }
  trace.now.ready = true;
}

// Called where an error is caught.
void Traces::give_up(const Error& why, const Trace* trace) {
  if (!options_.if_unrecordable) throw;
  const bool others_are_replayed = why.code() == ErrorCode::resource_exhausted || (trace && has_given_up(*trace));
  if (!others_are_replayed) gave_up_ = true;
  if (!told_.exchange(true)) options_.if_unrecordable(why);
}

// Whether the part could be done. Where not, the function is to run as it is.
bool Traces::attempt(FunctionRef<void()> part, Trace* const& trace) {
  try {
    part();
    return true;
  } catch (const Error& why) {
    give_up(why, trace);
  } catch (const c10::Error& why) {  // of a call that is made while a replay is prepared
    give_up(Error(ErrorCode::unimplemented, str(options_.name, ": ", why.what_without_backtrace())));
  }
  return false;
}

// What the function took is a part of the signature.
void Traces::take_elements(Trace& trace, Call& call) {
  add_elements(call.arguments, call.elements);
  auto taken = signatures_of(call.elements);
  const std::lock_guard lock(mutex_);
  auto& known = trace.signature.elements;
  if (known && *known != taken)
    throw Error(
        ErrorCode::failed_precondition,
        str(options_.name, ": the function took ", taken.size(), " elements of its iterators, and ", known->size(),
            " in a call like this one before, or in another order. What decides it must be an "
            "argument, or FunctionOptions::depends_on"));
  known = std::move(taken);
}

// Recordings that are one program have one list of recorded backward passes.
FunctionGraph Traces::graph_of(Trace& trace, const Program& program, std::shared_ptr<InnerGraph> inner) {
  if (!inner) return {};
  const std::lock_guard lock(mutex_);
  const bool goes_on = trace.now.graph && trace.now.program && !difference(*trace.now.program, program);
  return {std::move(inner), goes_on ? trace.now.graph.gradient : std::make_shared<FunctionGradient>(options_)};
}

// What the replicas of all processes left before the call. To read it is a reduction, which a replay would not make of
// what is left now; so whoever records the function, replays it or runs it as it is begins with that.
void Traces::reduce_gradients_of_before() {
  if (in_replica_view()) return;
  c10::SmallVector<std::shared_ptr<GradientGroup>, 2> groups;
  {
    const std::lock_guard lock(mutex_);
    groups.append(reduced_.begin(), reduced_.end());
  }
  for (const auto& group : groups)
    if (group->has_run()) group->reduce();
}

// A recording that is the first to read a group's gradients may have reduced what the next one finds reduced.
void Traces::learn_of_reductions(Trace& trace, const GradientReads& gradients) {
  const std::lock_guard lock(mutex_);
  for (const auto& [group, reduces] : gradients.reads()) {
    if (std::ranges::find(reduced_, group) != reduced_.end()) continue;
    reduced_.push_back(group);
    trace.now.found_unreduced |= reduces;
  }
}

Traces::Outcome Traces::record(Trace& trace, Call& call) {
  at::autocast::clear_cache();  // casts that it keeps from before would count as the caller's tensors
  std::vector<Program::Leaf> leaves;
  bool previous_fitted = true;
  {
    const std::lock_guard lock(mutex_);
    if (const auto& program = trace.latest_program()) leaves = program->leaves;
    if (trace.now.program) previous_fitted = trace.now.program->compiler || surroundings_fit(*trace.now.program);
  }
  Recorder recorder(options_.name, leaves, options_.if_unrecordable ? Unrecordable::goes_on : Unrecordable::error);
  struct Reads : GradientReads {
    Traces& traces;
    Trace& trace;
    Reads(Traces& traces, Trace& trace) : traces(traces), trace(trace) {}
    ~Reads() { traces.learn_of_reductions(trace, *this); }
  } const learned_in_any_case(*this, trace);
  call.elements.record_by(recorder);
  std::shared_ptr<InnerGraph> graph;
  Outcome outcome;
  {
    const Tensors copies = recorder.take_arguments(call.arguments.plain);
    graph = std::make_shared<InnerGraph>(options_.name, call.arguments.plain, copies);
    const SavedValues::Guard saved(at::GradMode::is_enabled() ? graph->saved_values() : nullptr);
    const RecordGuard guard(recorder);
    const BackwardHere backward_here;
    const Tensors arguments = put_together(copies, call.arguments.values);
    outcome.tensors = call.body(arguments);
    if (!recorder.is_over()) recorder.attempt([&] { refuse_other_components(options_.name, arguments, copies); });
  }
  at::autocast::clear_cache();
  ++tracing_count_;
  call.elements.check_all_taken();
  outcome.form = call.form();
  if (!recorder.is_over()) recorder.attempt([&] { take_elements(trace, call); });
  if (!recorder.is_over())
    recorder.attempt([&] { finish_recording(trace, call, previous_fitted, recorder, std::move(graph), outcome); });
  if (recorder.is_over()) give_up(*recorder.why_over(), &trace);
  return outcome;
}

void Traces::finish_recording(Trace& trace, const Call& call, bool previous_fitted, Recorder& recorder,
                              std::shared_ptr<InnerGraph> graph, Outcome& outcome) {
  TakenApart results;
  {
    const RecordGuard guard(recorder);
    recorder.reduce_gradients_of_replicas();
    results = take_apart(outcome.tensors);
    for (size_t i = 0; i < outcome.tensors.size(); ++i)
      if (recorder.is_from_outside(outcome.tensors[i])) results.values[i].same_as = outcome.tensors[i];
  }
  const bool has_graph = at::GradMode::is_enabled() && recorder.is_plain();
  if (has_graph) graph->follow(results.plain, recorder);
  std::vector<Tensor> saved;
  if (has_graph && graph->num_roots() > 0) saved = graph->saved_values()->values();
  if (!recorder.take_end(results.plain, std::move(saved))) return;
  const auto needs_gradient = [](const Tensor& result) { return result.defined() && result.requires_grad(); };
  const bool leads_out = has_graph && std::any_of(results.plain.begin(), results.plain.end(), needs_gradient);
  leads_out ? graph->cut_out() : graph.reset();
  outcome.tensors.clear();  // with their graphs and what these keep
  Program program = recorder.finish(results.plain);
  for (const Program::Buffer& buffer : program.buffers)  // the function wrote to another tensor on the same memory
    if (buffer.kind == Program::Buffer::Kind::argument && buffer.written)
      bump_version(call.arguments.plain[static_cast<size_t>(buffer.index)]);
  const FunctionGraph node_of = graph_of(trace, program, std::move(graph));
  outcome.tensors = finish_results(program, node_of, call.arguments.plain, std::move(results.plain), results.values);
  refuse_written_meshes(program, call.arguments.values);
  const std::lock_guard lock(mutex_);
  Recording made{.form = outcome.form, .results = std::move(results.values), .graph = node_of};
  accept(trace, std::move(program), std::move(made), recorder.kept_outside(), previous_fitted);
}

Traces::Outcome Traces::call(std::type_index types, const FlatArguments& arguments, Body body, Form form) {
  CallElements elements(options_.name, arguments.iterators);
  std::unique_lock recording(recording_, std::defer_lock);
  const auto run_as_it_is = [&] {
    if (recording) recording.unlock();
    Tensors results = body(arguments.tensors);
    elements.check_all_taken();
    return Outcome{std::move(results), form()};
  };
  reduce_gradients_of_before();
  if (gave_up_) return run_as_it_is();
  std::optional<Call> call;
  std::optional<Signature> signature;
  Trace* trace = nullptr;
  const auto begin = [&] {
    check_library(options_.name);
    check_place(options_.name);
    check_gradients(options_, arguments.tensors);
    call.emplace(Call{take_apart(arguments.tensors), body, form, elements});
    check_memory(options_.name, "an argument", call->arguments.plain);
    signature = signature_of(types, arguments, call->arguments);
  };
  if (!attempt(begin, trace)) return run_as_it_is();
  if (!signature->elements) fetch_elements(*signature, elements, recording);
  Outcome outcome;
  LaidOutValues results;
  FunctionGraph graph;
  std::unique_ptr<ProgramRunner> replay;
  const auto choose = [&] {
    for (const CallElements::Element& element : elements.elements())
      check_memory(options_.name, "an element has a tensor", element.tensors.plain);
    if (!recording) signature->elements = signatures_of(elements);
    trace = &find_or_add(*std::move(signature));
    const auto try_replay = [&] {
      if (!has_given_up(*trace)) replay = take_replay(*trace, outcome, results, graph);
    };
    try_replay();
    if (replay || recording) return;
    recording.lock();
    try_replay();  // another thread may have recorded it meanwhile
    if (replay) recording.unlock();
  };
  if (!attempt(choose, trace) || has_given_up(*trace)) return run_as_it_is();
  if (!replay) return record(*trace, *call);
  struct GiveBack {
    Traces& traces;
    Trace& trace;
    std::unique_ptr<ProgramRunner>& replay;
    ~GiveBack() { traces.give_back(trace, std::move(replay)); }
  } const at_the_end{*this, *trace, replay};
  add_elements(call->arguments, elements);
  outcome.tensors =
      finish_results(*replay->program(), graph, call->arguments.plain, replay->run(call->arguments.plain), results);
  return outcome;
}

// All that the call takes, if a call like it was recorded. Else no other one records until this one has run.
void Traces::fetch_elements(const Signature& signature, CallElements& elements,
                            std::unique_lock<std::mutex>& recording) {
  auto iterators = iterators_taken(signature);
  if (!iterators) {
    recording.lock();
    iterators = iterators_taken(signature);
  }
  if (!iterators) return;
  if (recording) recording.unlock();
  elements.fetch(*iterators);
}

std::string Traces::signatures() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const auto& trace : traces_) text += options_.name + trace->signature.to_string() + "\n";
  return text;
}

std::shared_ptr<const Program> Traces::find_program(std::type_index types, const FlatArguments& arguments) const {
  const Signature signature = signature_of(types, arguments, take_apart(arguments.tensors));
  const std::lock_guard lock(mutex_);
  for (const auto& trace : traces_)
    if (trace->signature.is_of_call_like(signature)) return trace->latest_program();
  return nullptr;
}

}  // namespace tutti
