#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/at_element.h"
#include "tutti/data/graph/forked.h"
#include "tutti/data/graph/num_threads.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/passes.h"
#include "tutti/data/graph/pipeline_scope.h"

namespace tutti::data::graph {
namespace {

// What interleave() does, with threads that read the datasets ahead of the consumer: those of the cycle, and behind
// them in a line those that will take the place of one that ends. The consumer walks the cycle as one thread would, so
// that the order is the same; or takes from whichever dataset is ready. No lock is held while a dataset, the input or
// the function runs, and whoever waits sleeps. TF: ParallelInterleaveDatasetV4.
class ParallelInterleaveIterator : public Iterator {
 public:
  ParallelInterleaveIterator(const NodePtr& input, std::shared_ptr<const FlatMapFunction> function,
                             const InterleaveOptions& options, const Context& context, const Context& of_functions)
      : consumer_stop_(context.stop),
        of_functions_(of_functions.stopped_by(stop_.get_token())),
        function_(std::move(function)),
        options_(options),
        // Blocks as a whole, so that one dataset can be read while another is taken from.
        max_ready_(static_cast<size_t>(std::clamp<int64_t>(options.block_length, 2, 64))),
        max_sources_(static_cast<size_t>(options.cycle_length + options.num_parallel_calls)),
        dataset_(input),
        input_(input->iterate(context.stopped_by(stop_.get_token()))),
        cycle_(static_cast<size_t>(options.cycle_length)) {}

  ~ParallelInterleaveIterator() override { stop_.request_stop(); }

  bool next(Element& element) override {
    start();
    std::unique_lock lock(mutex_);
    Turn turn = Turn::wait;
    const auto decided = [&] {
      turn = options_.deterministic ? in_turn() : whichever_is_ready();
      return turn != Turn::wait;
    };
    if (!for_consumer_.wait(lock, consumer_stop_, decided))
      throw Error(ErrorCode::cancelled, "interleave: the consumer is gone");
    if (turn == Turn::end) return false;
    Result result = std::move(cycle_[slot_]->ready.front());
    cycle_[slot_]->ready.pop_front();
    if (cycle_[slot_]->failed())
      cycle_[slot_].reset();  // leaves its place to the next one
    else if (!result.error && ++taken_ == options_.block_length)
      move_on();
    lock.unlock();
    for_threads_.notify_one();
    if (result.error) std::rethrow_exception(result.error);
    element = std::move(result.element);
    return true;
  }

  void save(StateWriter& state) override;
  void restore(StateReader& state) override;

 private:
  struct Result {
    Element element;
    std::exception_ptr error;
  };
  struct Source {
    Element element;    // that the function makes the dataset of
    int64_t index = 0;  // of that element
    NodePtr dataset;    // null until it is first read, as the next
    std::unique_ptr<Iterator> pass;
    std::deque<Result> ready;
    bool busy = false;   // a thread uses `dataset` and `pass`
    bool ended = false;  // nothing more will become ready
    // There was no element, or the function made no dataset of it: all that becomes ready is the error.
    bool failed() const { return ended && !pass; }
  };
  using SourcePtr = std::shared_ptr<Source>;
  enum class Turn { wait, take, end };

  void start() {
    while (threads_.size() < static_cast<size_t>(options_.num_parallel_calls))
      threads_.emplace_back([this] { work(); });
  }

  // The consumer's side, under the lock.

  void move_on() {
    slot_ = (slot_ + 1) % cycle_.size();
    taken_ = 0;
  }

  // Whether the current place of the cycle has a dataset, put there from the line if need be.
  bool occupied() {
    if (!cycle_[slot_] && !line_.empty()) {
      cycle_[slot_] = std::move(line_.front());
      line_.pop_front();
      for_threads_.notify_one();
    }
    return cycle_[slot_] != nullptr;
  }

  bool exhausted() const { return input_ended_ && !reading_ && line_.empty(); }

  // Goes to the next element that one thread would give, as far as that is decided.
  Turn in_turn() {
    for (size_t empty = 0; empty < cycle_.size();) {
      if (!occupied()) {
        if (!exhausted()) return Turn::wait;
        ++empty;
      } else {
        Source& source = *cycle_[slot_];
        if (!source.ready.empty()) return Turn::take;
        if (!source.ended) return Turn::wait;
        cycle_[slot_].reset();
        for_threads_.notify_one();
        empty = 0;
      }
      move_on();
    }
    return Turn::end;
  }

  // Goes to a dataset that is ready, the current one first.
  Turn whichever_is_ready() {
    const size_t current = slot_;
    bool any_open = false;
    for (size_t i = 0; i < cycle_.size(); ++i, slot_ = (slot_ + 1) % cycle_.size()) {
      while (occupied() && cycle_[slot_]->ready.empty() && cycle_[slot_]->ended) {
        cycle_[slot_].reset();
        for_threads_.notify_one();
      }
      if (!cycle_[slot_]) continue;
      any_open = true;
      if (cycle_[slot_]->ready.empty()) continue;
      if (slot_ != current) taken_ = 0;
      return Turn::take;
    }
    return any_open || !exhausted() ? Turn::wait : Turn::end;
  }

  // The threads' side.

  void work() {
    const PipelineScope scope;
    std::unique_lock lock(mutex_);
    while (true) {
      SourcePtr source;
      const auto find_work = [&] {
        if (paused_) return false;
        source = wanted_of(cycle_, slot_);
        if (!source && may_read()) return true;
        if (!source) source = wanted_of(line_, 0);
        return source != nullptr;
      };
      if (!for_threads_.wait(lock, stop_.get_token(), find_work) || stop_.stop_requested()) return;
      ++num_at_work_;
      if (source)
        advance(lock, *source);
      else
        read(lock);
      --num_at_work_;
      for_consumer_.notify_all();
    }
  }

  // The first, from `first` on, of which more can be made ready; or null.
  template <class Sources>
  SourcePtr wanted_of(const Sources& sources, size_t first) const {
    for (size_t i = 0; i < sources.size(); ++i) {
      const SourcePtr& source = sources[(first + i) % sources.size()];
      if (source && !source->busy && !source->ended && source->ready.size() < max_ready_) return source;
    }
    return nullptr;
  }

  bool may_read() const {
    const auto open = static_cast<size_t>(std::ranges::count_if(cycle_, [](const auto& source) { return !!source; }));
    return !reading_ && !input_ended_ && open + line_.size() < max_sources_;
  }

  // Puts the input's next element in the line.
  void read(std::unique_lock<std::mutex>& lock) {
    reading_ = true;
    lock.unlock();
    const auto source = std::make_shared<Source>();
    bool any = true;
    try {
      any = input_->next(source->element);
    } catch (...) {
      source->ready.push_back({{}, std::current_exception()});
      source->ended = true;
    }
    lock.lock();
    reading_ = false;
    input_ended_ = !any;
    if (!any) return;
    if (!source->ended) source->index = next_index_++;
    line_.push_back(source);
    for_threads_.notify_one();
  }

  // Makes one more element of a dataset ready.
  void advance(std::unique_lock<std::mutex>& lock, Source& source) {
    source.busy = true;
    lock.unlock();
    Result result;
    bool any = true;
    try {
      if (!source.pass) open(source);
      any = source.pass->next(result.element);
    } catch (...) {
      result.error = std::current_exception();
    }
    lock.lock();
    source.busy = false;
    source.ended = !any || !source.pass;
    if (any) source.ready.push_back(std::move(result));
  }

  void open(Source& source) const {
    source.dataset = at_element("interleave", source.index, [&] { return (*function_)(source.element); });
    source.pass = source.dataset->iterate(of_functions_.part(static_cast<uint64_t>(source.index)));
  }

  // No thread works while one of these lives.
  struct Pause {
    explicit Pause(ParallelInterleaveIterator& iterator) : iterator(iterator), lock(iterator.mutex_) {
      iterator.paused_ = true;
      iterator.for_consumer_.wait(lock, [&] { return iterator.num_at_work_ == 0; });
    }
    ~Pause() {
      iterator.paused_ = false;
      iterator.for_threads_.notify_all();
    }
    ParallelInterleaveIterator& iterator;
    std::unique_lock<std::mutex> lock;
  };

  const char* name() const {
    return options_.deterministic ? "parallel_interleave" : "parallel_interleave in any order";
  }
  void save(StateWriter& state, const Source& source) const;
  SourcePtr restored(StateReader& state);

  std::stop_source stop_;
  std::stop_token consumer_stop_;
  const Context of_functions_;
  std::shared_ptr<const FlatMapFunction> function_;
  InterleaveOptions options_;
  const size_t max_ready_;
  const size_t max_sources_;
  NodePtr dataset_;                  // the input
  std::unique_ptr<Iterator> input_;  // its pass, used by the thread that set reading_

  std::mutex mutex_;  // guards what follows
  std::condition_variable_any for_consumer_;
  std::condition_variable_any for_threads_;
  std::vector<SourcePtr> cycle_;
  std::deque<SourcePtr> line_;
  size_t slot_ = 0;
  int64_t taken_ = 0;  // of this turn
  int64_t next_index_ = 0;
  bool reading_ = false;
  bool input_ended_ = false;
  bool paused_ = false;
  int num_at_work_ = 0;
  std::vector<std::jthread> threads_;  // last: joined before the rest goes
};

void ParallelInterleaveIterator::save(StateWriter& state) {
  const Pause pause(*this);
  state.op(name(), {options_.cycle_length, options_.block_length});
  state.graph(*dataset_);
  input_->save(state);
  for (const int64_t number : {static_cast<int64_t>(slot_), taken_, next_index_, int64_t{input_ended_}})
    state.number(number);
  for (const SourcePtr& source : cycle_) {
    state.number(source != nullptr);
    if (source) save(state, *source);
  }
  state.number(static_cast<int64_t>(line_.size()));
  for (const SourcePtr& source : line_) save(state, *source);
}

void ParallelInterleaveIterator::save(StateWriter& state, const Source& source) const {
  state.number(source.index);
  state.element(source.element);
  state.number(source.ended);
  state.number(source.pass != nullptr);
  if (source.pass) {
    state.graph(*source.dataset);
    source.pass->save(state);
  }
  state.number(static_cast<int64_t>(source.ready.size()));
  for (const Result& result : source.ready) {
    state.number(result.error != nullptr);
    if (result.error)
      state.error(result.error);
    else
      state.element(result.element);
  }
}

void ParallelInterleaveIterator::restore(StateReader& state) {
  state.op(name(), {options_.cycle_length, options_.block_length});
  state.graph(*dataset_);
  input_->restore(state);
  slot_ = static_cast<size_t>(state.number_in(0, options_.cycle_length - 1));
  taken_ = state.number_in(0, options_.block_length - 1);
  next_index_ = state.number_in(0, INT64_MAX);
  input_ended_ = state.flag();
  for (SourcePtr& source : cycle_)
    if (state.flag()) source = restored(state);
  for (int64_t left = state.number_in(0, INT64_MAX); left > 0; --left)  // of as many threads as it had
    line_.push_back(restored(state));
}

ParallelInterleaveIterator::SourcePtr ParallelInterleaveIterator::restored(StateReader& state) {
  auto source = std::make_shared<Source>();
  source->index = state.number_in(0, INT64_MAX);
  source->element = state.element();
  source->ended = state.flag();
  if (state.flag()) {
    open(*source);
    state.graph(*source->dataset);
    source->pass->restore(state);
  }
  for (int64_t left = state.number_in(0, static_cast<int64_t>(max_ready_)); left > 0; --left) {
    Result& result = source->ready.emplace_back();
    if (state.flag())
      result.error = state.error();
    else
      result.element = state.element();
  }
  return source;
}

}  // namespace

NodePtr parallel_interleave(const NodePtr& input, FlatMapFunction function, const InterleaveOptions& options) {
  InterleaveOptions on_threads = options;
  on_threads.num_parallel_calls = num_threads("interleave", options.num_parallel_calls);
  const auto shared = std::make_shared<const FlatMapFunction>(std::move(function));
  Node node = *interleave(input, *shared, options);
  node.rebuild = [=](const std::vector<NodePtr>& inputs) {
    return parallel_interleave(inputs.at(0), *shared, options);
  };
  const auto passes = std::make_shared<Passes>("interleave", Seed(), /*again=*/true);
  node.shared = passes;
  node.iterate = [=](const Context& context) {
    return of_this_process(std::make_unique<ParallelInterleaveIterator>(input, shared, on_threads, context,
                                                                        passes->of_functions(context)));
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
