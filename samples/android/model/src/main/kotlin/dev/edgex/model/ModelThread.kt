package dev.edgex.model

import java.util.concurrent.Executors
import kotlin.coroutines.resumeWithException
import kotlin.coroutines.resume
import kotlin.coroutines.suspendCoroutine

/**
 * The one thread of a process on which models are loaded and run.
 *
 * An engine serves one thread at a time and its thread pool is the process's, so work from anywhere waits its turn here.
 */
object ModelThread {
    private val executor = Executors.newSingleThreadExecutor { Thread(it, "edgex-model").apply { isDaemon = true } }

    /** Suspends until [work] was done there. A run that has begun is finished also where its caller was cancelled. */
    suspend fun <T> run(work: () -> T): T = suspendCoroutine { continuation ->
        executor.execute {
            runCatching(work).fold(continuation::resume, continuation::resumeWithException)
        }
    }

    /** Does [work] there some time; nobody waits for it. */
    fun post(work: () -> Unit) = executor.execute(work)
}
