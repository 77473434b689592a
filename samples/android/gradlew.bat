@echo off
rem Gradle's launcher as text alone: see gradlew. Needs PowerShell, which every Windows since 7 has.
setlocal
set "HERE=%~dp0"
set "WRAPPER=%HERE%gradle\wrapper"
set "JAVA=java"
if defined JAVA_HOME set "JAVA=%JAVA_HOME%\bin\java"
if exist "%WRAPPER%\gradle-wrapper.jar" (
    "%JAVA%" -Dorg.gradle.appname=gradlew -classpath "%WRAPPER%\gradle-wrapper.jar" org.gradle.wrapper.GradleWrapperMain %*
    exit /b
)
for /f "tokens=1,* delims==" %%a in (%WRAPPER%\gradle-wrapper.properties) do (
    if "%%a"=="distributionUrl" set "URL=%%b"
    if "%%a"=="distributionSha256Sum" set "SUM=%%b"
)
set "URL=%URL:\=%"
for %%f in ("%URL%") do set "NAME=%%~nf"
if not defined GRADLE_USER_HOME set "GRADLE_USER_HOME=%USERPROFILE%\.gradle"
set "HOME_DIR=%GRADLE_USER_HOME%\edgex\%NAME%-%SUM%"
if not exist "%HOME_DIR%\complete" (
    powershell -NoProfile -Command "$ErrorActionPreference='Stop'; $d='%HOME_DIR%'; if (Test-Path $d) { Remove-Item -Recurse -Force $d }; New-Item -ItemType Directory -Force $d | Out-Null; $z=Join-Path $d 'gradle.zip'; $ProgressPreference='SilentlyContinue'; Write-Host 'Downloading %URL%'; Invoke-WebRequest -UseBasicParsing '%URL%' -OutFile $z; if ((Get-FileHash $z -Algorithm SHA256).Hash.ToLower() -ne '%SUM%') { Remove-Item -Recurse -Force $d; Write-Error 'The download has another SHA-256 than expected: nothing of it was run.' }; Expand-Archive $z $d; Remove-Item $z; New-Item (Join-Path $d 'complete') | Out-Null"
    if errorlevel 1 exit /b 1
)
for /d %%d in ("%HOME_DIR%\gradle-*") do (
    call "%%d\bin\gradle.bat" %* --project-dir "%HERE%."
    exit /b
)
echo %HOME_DIR% holds no Gradle: delete it and try again.
exit /b 1
