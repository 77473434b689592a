plugins {
    alias(libs.plugins.android.application) apply false
    alias(libs.plugins.android.library) apply false
}

subprojects {
    // `gradle.lockfile` in each module holds the versions of all that is downloaded, once it was written: see README.md.
    dependencyLocking {
        lockAllConfigurations()
    }
}
