#include "tutti/coordinator/closure_queue.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/error_of.h"
#include "tutti/core/error.h"

namespace tutti::coordinator {
namespace {

// Does what it is told.
class Told : public Closure {
 public:
  explicit Told(std::function<void()> what = [] {}) : what_(std::move(what)) {}

 private:
  void run(int) override { what_(); }
  void drop_arguments() override { what_ = nullptr; }

  std::function<void()> what_;
};

std::shared_ptr<Told> told(std::function<void()> what = [] {}) { return std::make_shared<Told>(std::move(what)); }
std::shared_ptr<Told> failing() {
  return told([] { throw Error(ErrorCode::data_loss, "this one"); });
}

// What a worker does with one batch.
bool work(ClosureQueue& queue, size_t most = 1) {
  ClosureQueue::Batch batch;
  if (!queue.take(batch, most, 1)) return false;
  for (const auto& closure : batch.closures) {
    if (queue.is_cancelled(batch))
      closure->cancel();
    else if (auto error = closure->call(0))
      queue.fail(std::move(error));
  }
  queue.finish(batch);
  return true;
}

ErrorCode code_waited_for(const Closure& closure) {
  return code_of([&] { closure.wait(); }).value_or(ErrorCode::internal);
}

TEST(ClosureQueue, GivesClosuresInTheirOrder) {
  ClosureQueue queue(8, {});
  std::vector<int> order;
  for (int i = 0; i < 5; ++i) queue.put(told([&order, i] { order.push_back(i); }));
  while (!queue.done()) work(queue, 2);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
  queue.join();
}

TEST(ClosureQueue, AnErrorCancelsWhatHasNotBegunAndIsThrownOnce) {
  ClosureQueue queue(8, {});
  const auto first = told(), bad = failing(), later = told();
  for (const auto& closure : {first, bad, later}) queue.put(closure);
  work(queue);
  work(queue);
  EXPECT_EQ(code_of([&] { queue.join(); }), ErrorCode::data_loss);
  queue.join();
  EXPECT_FALSE(code_of([&] { first->wait(); }));
  EXPECT_EQ(code_waited_for(*bad), ErrorCode::data_loss);
  EXPECT_EQ(code_waited_for(*later), ErrorCode::cancelled);
  const auto after = told();
  queue.put(after);
  work(queue);
  after->wait();
  EXPECT_TRUE(queue.done());
}

TEST(ClosureQueue, AnErrorCancelsTheRestOfItsOwnBatch) {
  ClosureQueue queue(16, {});
  std::vector<std::shared_ptr<Told>> all{failing(), told(), told(), told()};
  for (const auto& closure : all) queue.put(closure);
  ClosureQueue::Batch batch;
  while (work(queue, 8) && !all.back()->ready()) continue;
  EXPECT_EQ(code_waited_for(*all[1]), ErrorCode::cancelled);
  EXPECT_EQ(code_of([&] { queue.done(); }), ErrorCode::data_loss);
}

TEST(ClosureQueue, TheFirstOfSeveralErrorsIsThrown) {
  ClosureQueue queue(16, {});
  queue.fail(std::make_exception_ptr(Error(ErrorCode::data_loss, "first")));
  queue.fail(std::make_exception_ptr(Error(ErrorCode::not_found, "second")));
  EXPECT_EQ(code_of([&] { queue.put(told()); }), ErrorCode::data_loss);
  EXPECT_TRUE(queue.done());
}

TEST(ClosureQueue, AnErrorIsThrownWhenNothingIsUnderWay) {
  ClosureQueue queue(16, {});
  std::atomic<bool> begun{false}, go{false}, ended{false};
  const auto slow = told([&] {
    begun = true;
    begun.notify_all();
    go.wait(false);
    ended = true;
  });
  queue.put(slow);
  std::thread worker([&] { work(queue); });
  begun.wait(false);
  ClosureQueue::Batch other;
  queue.put(failing());
  queue.take(other, 1, 1);
  queue.fail(other.closures[0]->call(1));
  queue.finish(other);
  std::thread release([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    go = true;
    go.notify_all();
  });
  EXPECT_EQ(code_of([&] { queue.put(told()); }), ErrorCode::data_loss);
  EXPECT_TRUE(ended);
  worker.join();
  release.join();
}

TEST(ClosureQueue, AFullOneWaitsForRoom) {
  ClosureQueue queue(2, {});
  queue.put(told());
  queue.put(told());
  std::atomic<bool> put{false};
  std::thread scheduler([&] {
    queue.put(told());
    put = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(put);
  work(queue);
  scheduler.join();
  work(queue);
  work(queue);
  queue.join();
}

TEST(ClosureQueue, AFullOneThrowsTheErrorThatEmptiesIt) {
  ClosureQueue queue(1, {});
  const auto left = told();
  queue.put(left);
  std::thread fails([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    queue.fail(std::make_exception_ptr(Error(ErrorCode::data_loss, "")));
  });
  EXPECT_EQ(code_of([&] { queue.put(told()); }), ErrorCode::data_loss);
  EXPECT_EQ(code_waited_for(*left), ErrorCode::cancelled);
  fails.join();
}

TEST(ClosureQueue, StoppedItCancelsAndLetsWorkersGo) {
  ClosureQueue queue(4, std::chrono::microseconds(20));
  const auto left = told();
  std::thread sleeper([&] { EXPECT_FALSE(work(queue) && work(queue)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  queue.stop();
  sleeper.join();
  EXPECT_FALSE(work(queue));
  EXPECT_EQ(code_of([] { ClosureQueue(0, {}); }), ErrorCode::invalid_argument);
}

TEST(ClosureQueue, ThreadsScheduleAndWorkAtOnce) {
  ClosureQueue queue(32, std::chrono::microseconds(20));
  std::atomic<int> called{0};
  std::vector<std::thread> workers, schedulers;
  for (int i = 0; i < 3; ++i)
    workers.emplace_back([&] {
      while (work(queue, 4)) continue;
    });
  for (int i = 0; i < 3; ++i)
    schedulers.emplace_back([&] {
      for (int n = 0; n < 2000; ++n) queue.put(told([&] { ++called; }));
    });
  for (auto& thread : schedulers) thread.join();
  queue.join();
  EXPECT_EQ(called, 6000);
  queue.stop();
  for (auto& thread : workers) thread.join();
}

TEST(ClosureQueue, WhatALostWorkerHadIsTakenAgainBeforeTheRest) {
  ClosureQueue queue(8, {});
  std::vector<int> order;
  for (int i = 0; i < 4; ++i) queue.put(told([&order, i] { order.push_back(i); }));
  ClosureQueue::Batch batch;
  ASSERT_TRUE(queue.take(batch, 3, 1));
  const auto closures = batch.closures;
  for (size_t i = 0; i < closures.size(); ++i)
    if (i == 0) closures[i]->call(0);
  queue.put_back(batch, {closures.begin() + 1, closures.end()});
  while (!queue.done()) work(queue);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
}

TEST(ClosureQueue, WhatTwoWorkersGiveBackIsTakenInTheOrderOfBefore) {
  ClosureQueue queue(8, {});
  std::vector<int> order;
  for (int i = 0; i < 6; ++i) queue.put(told([&order, i] { order.push_back(i); }));
  ClosureQueue::Batch early, late;
  ASSERT_TRUE(queue.take(early, 3, 1));
  ASSERT_TRUE(queue.take(late, 1, 1));
  for (int64_t i = 0; i < 3; ++i) early.closures[static_cast<size_t>(i)]->number = 1 + i;  // as who hands them out does
  late.closures[0]->number = 4;
  queue.put_back(late, std::vector(late.closures));
  queue.put_back(early, std::vector(early.closures));
  while (!queue.done()) work(queue);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST(ClosureQueue, WhatALostWorkerHadIsCancelledWithTheRest) {
  ClosureQueue queue(8, {});
  const auto lost = told();
  queue.put(lost);
  ClosureQueue::Batch batch;
  ASSERT_TRUE(queue.take(batch, 1, 1));
  queue.fail(std::make_exception_ptr(Error(ErrorCode::data_loss, "another one")));
  queue.put_back(batch, {lost});
  EXPECT_EQ(code_waited_for(*lost), ErrorCode::cancelled);
  EXPECT_EQ(code_of([&] { queue.join(); }), ErrorCode::data_loss);
  queue.join();
}

TEST(ClosureQueue, ABrokenOneThrowsItsErrorFromEveryCall) {
  ClosureQueue queue(8, {});
  const auto waiting = told();
  queue.put(waiting);
  queue.break_with(std::make_exception_ptr(Error(ErrorCode::unavailable, "ps 1 is lost")));
  EXPECT_EQ(code_waited_for(*waiting), ErrorCode::cancelled);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(code_of([&] { queue.put(told()); }), ErrorCode::unavailable);
    EXPECT_EQ(code_of([&] { queue.join(); }), ErrorCode::unavailable);
    EXPECT_EQ(code_of([&] { queue.done(); }), ErrorCode::unavailable);
  }
}

TEST(ClosureQueue, AQueueThatBreaksWhileNobodyWorksEndsTheWaiting) {
  ClosureQueue queue(10, {});
  queue.put(told());
  std::thread breaks([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    queue.break_with(std::make_exception_ptr(Error(ErrorCode::unavailable, "nobody is left")));
  });
  EXPECT_EQ(error_of([&] { queue.join(); }), "unavailable: nobody is left");
  breaks.join();
}

}  // namespace
}  // namespace tutti::coordinator
