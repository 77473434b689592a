#pragma once

#include <cstddef>

// Zeros that end, rounded up to `alignment`, where a page begins that nothing may touch; null where too much is asked for.
void* take_guarded(size_t bytes, size_t alignment);
void give_guarded(void* memory);
