;;; agent_shell.el --- One prompt of agent-shell to `ludolf acp'  -*- lexical-binding: t; -*-

;; Run by test_editors.py: `emacs --batch -L ... -l agent_shell.el' in the folder of a project.
;; The last line of stdout is a JSON object with what the user saw.

(when (version< emacs-version "29.1")
  (princ (format "{\"tooOld\": \"%s\"}\n" emacs-version))
  (kill-emacs 0))

(require 'agent-shell)

(setq agent-shell-show-welcome-message nil
      agent-shell-transcript-file-path-function nil
      agent-shell-session-strategy 'new)

(defvar editor-asked nil "The permission requests: title, kind, and the two sides of the diff.")
(defvar editor-done nil "Whether the turn has ended.")

(setq agent-shell-permission-responder-function
      (lambda (permission)
        (let* ((call (map-elt permission :tool-call))
               (diff (map-elt call :diff)))
          (push `((title . ,(map-elt call :title))
                  (kind . ,(map-elt call :kind))
                  (old . ,(map-elt diff :old))
                  (new . ,(map-elt diff :new))
                  (options . ,(vconcat (mapcar (lambda (option) (map-elt option :kind))
                                               (map-elt permission :options)))))
                editor-asked)
          (agent-shell-permission-allow-always permission))))

(defun editor-wait (test seconds)
  "Wait until TEST returns non-nil, for SECONDS at most."
  (with-timeout (seconds (error "Waited %s seconds:\n%s" seconds (buffer-string)))
    (while (not (funcall test))
      (accept-process-output nil 0.05))))

;; A file that the user has changed and not saved.
(find-file "notes.txt")
(goto-char (point-max))
(insert "unsaved line\n")

(let* ((notes (current-buffer))
       (config (agent-shell-make-agent-config
                :identifier 'ludolf
                :mode-line-name "Ludolf"
                :buffer-name "Ludolf"
                :shell-prompt "Ludolf> "
                :shell-prompt-regexp "Ludolf> "
                :client-maker (lambda (buffer)
                                (agent-shell--make-acp-client
                                 :command "ludolf" :command-params '("acp")
                                 :context-buffer buffer))))
       (shell (agent-shell-start :config config))
       (is-ready nil))
  (with-current-buffer shell
    (agent-shell-subscribe-to :shell-buffer shell :event 'prompt-ready
                              :on-event (lambda (_) (setq is-ready t)))
    (agent-shell-subscribe-to :shell-buffer shell :event 'turn-complete
                              :on-event (lambda (_) (setq editor-done t)))
    (editor-wait (lambda () is-ready) 60)
    (agent-shell-insert :text "Change the greeting" :submit t :shell-buffer shell)
    (editor-wait (lambda () editor-done) 60)
    (princ (json-serialize
            `((chat . ,(substring-no-properties (buffer-string)))
              (asked . ,(vconcat (reverse editor-asked)))
              (buffer . ,(with-current-buffer notes (buffer-string)))
              (modified . ,(if (buffer-modified-p notes) t :false)))))
    (terpri))
  (kill-emacs 0))
;;; agent_shell.el ends here
