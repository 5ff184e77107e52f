#pragma once

namespace tutti {

// Limits the threads that LibTorch's CPU kernels use when they are called from this thread, until the end of the block.
// Other threads keep theirs, unlike with at::set_num_threads, which also sets MKL's process-wide number.
class IntraOpThreads {
 public:
  explicit IntraOpThreads(int num_threads);
  ~IntraOpThreads();
  IntraOpThreads(const IntraOpThreads&) = delete;
  IntraOpThreads& operator=(const IntraOpThreads&) = delete;

 private:
  int previous_openmp_ = 0;
  int previous_mkl_ = 0;
};

}  // namespace tutti
