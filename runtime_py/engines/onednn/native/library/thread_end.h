// Keeps a thread that ends and a partition that is destroyed apart.
//
// oneDNN 3.2 keeps data of each thread for each partition it ran, in a table of all threads. A thread's own destructor takes
// a reference outside of the table's lock; a partition that another thread destroys at this moment empties the table's entry,
// and the first erases what is no longer there (src/graph/backend/dnnl/thread_local_cache.hpp, ~cache_type_t).
#pragma once

#include "oneapi/dnnl/dnnl_graph.h"

namespace edgex {

// Lives while the calling thread runs partitions; what was run in it is released under a lock when the thread ends.
class ThreadTables {
 public:
  ThreadTables();
  ~ThreadTables();
  ThreadTables(const ThreadTables&) = delete;
  ThreadTables& operator=(const ThreadTables&) = delete;
};

// Under the same lock.
dnnl_status_t destroy_compiled(dnnl_graph_compiled_partition_t partition);

}  // namespace edgex
