#include "library/thread_end.h"

#include <mutex>

namespace edgex {

namespace {

// Never destroyed: threads may end behind the destructors of globals.
std::recursive_mutex& ends() {
  static auto* one = new std::recursive_mutex;
  return *one;
}

// Destructors of a thread's variables run in the opposite order of their construction. This one is constructed before
// oneDNN's table of the thread, so that it unlocks behind it ...
struct Unlocker {
  bool locked = false;
  ~Unlocker() {
    if (locked) ends().unlock();
  }
};

// ... and this one after it, so that it locks before it.
struct Locker {
  Unlocker& behind;
  ~Locker() {
    ends().lock();
    behind.locked = true;
  }
};

Unlocker& unlocker() {
  static thread_local Unlocker one;
  return one;
}

}  // namespace

ThreadTables::ThreadTables() { unlocker(); }

ThreadTables::~ThreadTables() { static thread_local const Locker one{unlocker()}; }

dnnl_status_t destroy_compiled(dnnl_graph_compiled_partition_t partition) {
  const std::lock_guard<std::recursive_mutex> lock(ends());
  return dnnl_graph_compiled_partition_destroy(partition);
}

}  // namespace edgex
