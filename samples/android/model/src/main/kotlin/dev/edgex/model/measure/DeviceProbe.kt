package dev.edgex.model.measure

import android.app.ActivityManager
import android.content.Context
import android.content.Intent
import android.content.IntentFilter
import android.os.BatteryManager
import android.os.Build
import android.os.Debug
import android.os.PowerManager
import java.io.File
import java.io.IOException

/** Reads what the device is and how it is doing. Unknown is null, never 0 and never a guess. */
class DeviceProbe(private val context: Context) {
    private val power = context.getSystemService(PowerManager::class.java)

    fun describe(): DeviceInfo {
        val memory = ActivityManager.MemoryInfo()
        context.getSystemService(ActivityManager::class.java).getMemoryInfo(memory)
        val features = read("/proc/cpuinfo")?.let { text ->
            Regex("(?m)^(?:Features|flags)\\s*:\\s*(.*)$").find(text)?.groupValues?.get(1)?.trim()?.split(' ')
        }
        return DeviceInfo(
            model = "${Build.MANUFACTURER} ${Build.MODEL}",
            soc = if (Build.VERSION.SDK_INT >= 31) "${Build.SOC_MANUFACTURER} ${Build.SOC_MODEL}" else Build.HARDWARE,
            abi = Build.SUPPORTED_ABIS.first(),
            cpuFeatures = features,
            cores = Runtime.getRuntime().availableProcessors(),
            memoryBytes = memory.totalMem,
            androidApi = Build.VERSION.SDK_INT,
            androidRelease = Build.VERSION.RELEASE,
            kernel = System.getProperty("os.version") ?: "unknown",
            governor = readCpu(0, "scaling_governor"),
            frequencyHz = readCpu(0, "scaling_cur_freq")?.toDoubleOrNull()?.times(1000),
            isEmulator = Build.HARDWARE in EMULATORS || Build.FINGERPRINT.startsWith("generic"),
            details = mapOf("fingerprint" to Build.FINGERPRINT, "max_frequencies_khz" to readAllCpus("cpuinfo_max_freq")),
        )
    }

    fun readState(): DeviceState {
        // A null receiver registers nothing: it only fetches the last broadcast.
        val battery = context.registerReceiver(null, IntentFilter(Intent.ACTION_BATTERY_CHANGED))
        val tenths = battery?.getIntExtra(BatteryManager.EXTRA_TEMPERATURE, MISSING)?.takeIf { it != MISSING }
        val level = battery?.getIntExtra(BatteryManager.EXTRA_LEVEL, MISSING)?.takeIf { it != MISSING }
        val plugged = battery?.getIntExtra(BatteryManager.EXTRA_PLUGGED, MISSING)?.takeIf { it != MISSING }
        return DeviceState(
            thermalStatus = if (Build.VERSION.SDK_INT >= 29) power.currentThermalStatus else null,
            values = mapOf(
                "battery_celsius" to tenths?.div(10.0),
                "battery_percent" to level,
                "charging" to plugged?.let { it != 0 },
                "power_save" to power.isPowerSaveMode,
                "screen_on" to power.isInteractive,
                "frequencies_khz" to readAllCpus("scaling_cur_freq"),
            ),
        )
    }

    fun readMemory(): MemoryReading = MemoryReading(
        peakRssBytes = read("/proc/self/status")?.let { text ->
            Regex("(?m)^VmHWM:\\s*(\\d+) kB").find(text)?.groupValues?.get(1)?.toLong()?.times(1024)
        },
        pssBytes = Debug.getPss().takeIf { it > 0 }?.times(1024),
        nativeHeapBytes = Debug.getNativeHeapAllocatedSize(),
    )

    private fun readAllCpus(file: String): List<Long?> =
        List(Runtime.getRuntime().availableProcessors()) { readCpu(it, file)?.toLongOrNull() }

    private fun readCpu(cpu: Int, file: String): String? = read("/sys/devices/system/cpu/cpu$cpu/cpufreq/$file")

    /** Null where the system does not let an app read it, as many devices do. */
    private fun read(path: String): String? = try {
        File(path).readText().trim().takeIf { it.isNotEmpty() }
    } catch (_: IOException) {
        null
    }

    private companion object {
        const val MISSING = Int.MIN_VALUE
        val EMULATORS = setOf("goldfish", "ranchu")
    }
}
