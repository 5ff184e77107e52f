#pragma once

namespace tutti {

// What a std::unique_ptr of a C library's object does at its end: std::unique_ptr<BIO, Releaser<BIO_free_all>>.
template <auto release>
struct Releaser {
  template <class T>
  void operator()(T* held) const {
    release(held);
  }
};

}  // namespace tutti
