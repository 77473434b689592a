package dev.edgex.sample

import android.os.Handler
import android.os.Looper

/**
 * A value that screens watch. It outlives them: a rotated screen is a new one and finds the value as it is.
 *
 * Set from any thread; read and watched on the main thread.
 */
class Watched<T>(initial: T) {
    private val main = Handler(Looper.getMainLooper())
    private val watchers = LinkedHashSet<(T) -> Unit>()

    @Volatile
    var value: T = initial
        private set

    fun set(new: T) {
        value = new
        main.post { watchers.forEach { it(value) } }
    }

    /** Calls [watcher] now and at every change until [unwatch]. */
    fun watch(watcher: (T) -> Unit) {
        watchers += watcher
        watcher(value)
    }

    fun unwatch(watcher: (T) -> Unit) {
        watchers -= watcher
    }
}
