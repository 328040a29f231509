target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
define ptx_kernel void @t(ptr addrspace(1) align 16 %p0) #0 !dbg !3 {
entry:
  %0 = call range(i32 0, 32) i32 @llvm.nvvm.read.ptx.sreg.tid.x(), !dbg !5
  %1 = sext i32 %0 to i64, !dbg !5
  %2 = getelementptr float, ptr addrspace(1) %p0, i64 %1, !dbg !5
  store float 0x3FF0000000000000, ptr addrspace(1) %2, align 4, !dbg !5
  ret void, !dbg !4
}
attributes #0 = { nounwind "nvvm.maxntid"="32" }
!llvm.dbg.cu = !{!1}
!llvm.module.flags = !{!6}
!0 = !DIFile(filename: "f.py", directory: "/tmp/tmp5lkkwyhd")
!1 = distinct !DICompileUnit(language: DW_LANG_C, file: !0, emissionKind: DebugDirectivesOnly)
!2 = !DISubroutineType(types: !{})
!3 = distinct !DISubprogram(name: "t", file: !0, line: 10, type: !2, unit: !1, spFlags: DISPFlagDefinition)
!4 = !DILocation(line: 10, column: 1, scope: !3)
!5 = !DILocation(line: 11, column: 2, scope: !3)
!6 = !{i32 2, !"Debug Info Version", i32 3}
