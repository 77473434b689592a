package dev.edgex.sample

import android.app.Activity
import android.os.Build
import android.view.View
import android.view.WindowInsets
import java.util.Locale
import kotlin.coroutines.Continuation
import kotlin.coroutines.EmptyCoroutineContext
import kotlin.coroutines.startCoroutine

val Activity.sample: SampleApplication get() = application as SampleApplication

/** Keeps the screen's content clear of bars, cut-outs and the keyboard: from Android 15 on, apps draw under them. */
fun View.padForBars() {
    val (left, top, right, bottom) = listOf(paddingLeft, paddingTop, paddingRight, paddingBottom)
    setOnApplyWindowInsetsListener { view, insets ->
        if (Build.VERSION.SDK_INT >= 30) {
            val types = WindowInsets.Type.systemBars() or WindowInsets.Type.displayCutout() or WindowInsets.Type.ime()
            val bars = insets.getInsets(types)
            view.setPadding(left + bars.left, top + bars.top, right + bars.right, bottom + bars.bottom)
        } else {
            @Suppress("DEPRECATION") // its successor exists from API 30 on
            view.setPadding(
                left + insets.systemWindowInsetLeft,
                top + insets.systemWindowInsetTop,
                right + insets.systemWindowInsetRight,
                bottom + insets.systemWindowInsetBottom,
            )
        }
        insets
    }
}

/** Starts suspending work from the main thread and tells how it ended, from any thread; this app needs no more of coroutines. */
fun <T> launch(work: suspend () -> T, onEnd: (Result<T>) -> Unit) = work.startCoroutine(Continuation(EmptyCoroutineContext, onEnd))

/** `1.23 ms` or `450 µs`. */
fun formatSeconds(seconds: Double): String = when {
    seconds >= 1 -> String.format(Locale.getDefault(), "%.2f s", seconds)
    seconds >= 1e-3 -> String.format(Locale.getDefault(), "%.2f ms", seconds * 1e3)
    else -> String.format(Locale.getDefault(), "%.0f µs", seconds * 1e6)
}

fun formatPercent(share: Double): String = String.format(Locale.getDefault(), "%.1f %%", share * 100)

fun formatFigure(value: Double?): String = if (value == null) "–" else String.format(Locale.getDefault(), "%.3g", value)

fun formatBytes(bytes: Long?): String = when {
    bytes == null -> "–"
    bytes >= 1_000_000 -> String.format(Locale.getDefault(), "%.1f MB", bytes / 1e6)
    else -> String.format(Locale.getDefault(), "%.1f kB", bytes / 1e3)
}
