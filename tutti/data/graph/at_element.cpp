#include "tutti/data/graph/at_element.h"

#include <c10/util/Exception.h>

#include <exception>
#include <stdexcept>
#include <typeinfo>

#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"

namespace tutti::data::graph {
namespace {

template <class... Types>
void rethrow_if_one_of(const std::exception& error, const std::string& text) {
  const auto rethrow_if = [&]<class Type>(const Type*) {
    if (typeid(error) == typeid(Type)) throw Type(text);
  };
  (rethrow_if(static_cast<const Types*>(nullptr)), ...);
}

}  // namespace

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

void rethrow_at_element(const char* op, int64_t index) {
  const std::string place = str(op, ": element ", index);
  try {
    throw;
  } catch (c10::Error& error) {
    error.add_context(place);
    throw;
  } catch (const Error& error) {
    if (typeid(error) == typeid(Error)) throw Error(error.code(), place + ": " + error.what(), error.location());
    warn(place + ": " + error.what());
    throw;
  } catch (const std::exception& error) {
    rethrow_if_one_of<std::runtime_error, std::logic_error, std::invalid_argument, std::domain_error, std::length_error,
                      std::out_of_range, std::range_error, std::overflow_error, std::underflow_error>(
        error, place + ": " + error.what());
    warn(str(place, ": an exception of type ", typeid(error).name(), ": ", error.what()));
    throw;
  } catch (...) {
    warn(place + ": an exception that is no std::exception");
    throw;
  }
}

}  // namespace tutti::data::graph
