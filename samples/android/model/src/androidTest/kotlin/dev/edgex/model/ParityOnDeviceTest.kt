package dev.edgex.model

import androidx.test.platform.app.InstrumentationRegistry
import java.util.concurrent.CompletableFuture
import java.util.concurrent.TimeUnit
import kotlin.coroutines.Continuation
import kotlin.coroutines.EmptyCoroutineContext
import kotlin.coroutines.startCoroutine
import org.junit.Assert.assertTrue
import org.junit.Test

/** On a device or an emulator: each model of this library computes there what PyTorch did. */
class ParityOnDeviceTest {
    @Test
    fun everyModelComputesWhatPyTorchDid() {
        val context = InstrumentationRegistry.getInstrumentation().targetContext
        val names = EdgeModel.names(context)
        assertTrue("this library holds no model", names.isNotEmpty())
        for (name in names) {
            EdgeModel.open(context, name).use { model ->
                val report = CompletableFuture<Boolean>()
                suspend { model.verifyOnDevice() }.startCoroutine(
                    Continuation(EmptyCoroutineContext) { found ->
                        found.fold({ report.complete(it.passed) }, { report.completeExceptionally(it) })
                    },
                )
                assertTrue(name, report.get(10, TimeUnit.MINUTES))
            }
        }
    }
}
